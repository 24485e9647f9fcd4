"""The words of the sample grammar: tables of lemmas by class, and the forms made from them.

Features: ``a`` agreement (sg, pl, i), ``c`` the class of a noun, ``r`` the reflexive that a noun binds (him, her, it,
them, me, you, us), ``f`` the form of a verb (base, pres, past, pp, ing), ``k`` its frame, ``s`` and ``o`` the classes
of its subject and object. A feature that an entry leaves open agrees with every value.
"""

from __future__ import annotations

from collections.abc import Iterator

from pdtools.data.grammar import Entry

# Irregular plurals are written singular/plural.
NOUNS: dict[str, str] = {
    "person": """author doctor teacher lawyer farmer painter nurse singer senator customer driver guard judge manager
        officer pilot student soldier architect artist baker chef editor engineer neighbor poet professor sailor
        child/children""",
    "person him": "man/men boy king uncle father brother nephew waiter",
    "person her": "woman/women girl queen aunt mother sister niece waitress",
    "animal": "dog cat horse bird goose/geese mouse/mice wolf/wolves fox",
    "doc": "book letter story/stories report novel poem diary/diaries article play song",
    "thing": "box key vase picture lamp chair table statue mirror coat hat boat basket bottle clock knife/knives flag",
    "food": "cake sandwich apple pie soup meal",
    "place": """garden village kitchen museum library/libraries office school station hotel park forest castle church
        theater""",
}
NAMES = {
    "him": "Adam David Frank Henry Martin Oscar Peter Thomas",
    "her": "Alice Clara Emma Helen Julia Maria Nora Susan",
}

# Past and participle of the irregular verbs.
IRREGULAR = {
    "bite": "bit bitten", "break": "broke broken", "bring": "brought brought", "build": "built built",
    "buy": "bought bought", "catch": "caught caught", "choose": "chose chosen", "draw": "drew drawn",
    "eat": "ate eaten", "fall": "fell fallen", "find": "found found",
    "forget": "forgot forgotten", "give": "gave given", "grow": "grew grown", "hear": "heard heard",
    "hide": "hid hidden", "keep": "kept kept", "know": "knew known", "leave": "left left", "lend": "lent lent",
    "lose": "lost lost", "make": "made made", "meet": "met met", "read": "read read", "run": "ran run",
    "say": "said said", "see": "saw seen", "sell": "sold sold", "send": "sent sent", "show": "showed shown",
    "sing": "sang sung", "sink": "sank sunk", "sleep": "slept slept", "steal": "stole stolen", "teach": "taught taught",
    "tell": "told told", "think": "thought thought", "throw": "threw thrown", "write": "wrote written",
}  # fmt: skip
DOUBLED = {"admit", "chat", "drop", "plan", "stop"}

# Frame, class of the subject, class of the object: lemmas. "animate" stands for person and animal.
VERBS: dict[str, str] = {
    "intr person": """sleep smile laugh cough wait arrive travel complain sing dance chat read write paint cook eat
        study leave run watch""",
    "intr animal": "sleep eat run escape hide",
    "intr doc": "disappear vanish",
    "intr thing": "break fall sink vanish disappear rust",
    "intr food": "burn cool disappear",
    "intr place": "burn collapse",
    "trans person person": """admire help meet see visit thank follow avoid praise criticize watch call hear find hate
        love trust""",
    "trans person animal": "feed see watch follow catch find love hear chase",
    "trans person doc": "read write finish publish praise buy find lose keep study discuss sing",
    "trans person thing": "buy sell carry find lose break steal paint drop move repair keep hide see",
    "trans person food": "eat cook buy bake find taste drop",
    "trans person place": "visit see paint clean leave find love build",
    "trans animal animal": "chase bite watch follow see hear",
    "trans animal person": "bite chase follow watch hear see love",
    "trans animal food": "eat steal find taste",
    "trans doc person": "please surprise annoy amuse bore",
    "trans thing person": "please surprise annoy",
    "trans food person": "please surprise",
    "opt person doc": "read write study sing",
    "opt person food": "eat cook",
    "opt person thing": "paint",
    "opt person place": "paint leave",
    "opt person person": "visit watch follow help",
    "opt animal food": "eat",
    "strict person": "smile cough arrive complain travel laugh wait sleep",
    "refl person": "admire see hear criticize love trust hate praise help",
    "ditr person doc": "send give show hand offer lend bring tell sell",
    "ditr person thing": "send give show hand offer lend bring sell throw",
    "ditr person food": "give hand offer bring throw",
    "say person": "say think know believe claim admit",
    "ask person": "know ask wonder forget discover remember",
    "want person": "want hope plan try decide",
    "persuade person person": "ask persuade force order help want",
    "seem person": "seem appear",
}  # fmt: skip
ADJECTIVES = {
    "person": """old young tall clever famous friendly happy honest kind nervous polite proud quiet rich sad smart tired
        angry brave""",
    "animal": "old young hungry quiet wild small big",
    "doc": "long short old famous new boring funny strange good",
    "thing": "old new heavy small big red blue green broken expensive cheap beautiful strange",
    "food": "cold hot fresh sweet good",
    "place": "old new big small quiet beautiful famous dark empty",
}
# Adjectives as predicates only of what they fit; those that take "about" are listed for persons.
MANNER = "quickly slowly quietly carefully happily suddenly loudly secretly"
ADVERBS = {
    "Manner": MANNER,
    "Often": "often always usually sometimes rarely",
    "Really": "really clearly certainly probably",
    "Degree": "very quite rather too",
    "Opener": "fortunately perhaps sadly today yesterday meanwhile",
}
PREPOSITIONS = {
    "person person": "near behind beside with",
    "person place": "from near in",
    "person thing": "with",
    "animal place": "in from near",
    "animal person": "near behind",
    "doc person": "by about from",
    "doc place": "about from",
    "doc thing": "on about",
    "thing thing": "on near beside under",
    "thing place": "in from",
    "thing person": "from near",
    "food thing": "in on",
    "food person": "for from",
    "place place": "near behind",
    "where place": "in near behind",
    "time": "after before during",
}
DETERMINERS = {
    "sg": "the/12 a/6 this/1.5 that/1.5 every/1.5 each/0.7",
    "pl": "the/12 some/3 these/1.5 those/1.5 many/1.2 several/1.2 most/0.6",
}
PRONOUNS = "he/sg/him she/sg/her it/sg/it they/pl/them we/pl/us you/pl/you I/i/me"
OBJECT_PRONOUNS = "him her them us you me"
POSSESSIVES = "his her their our my your its"
REFLEXIVES = {
    "him": "himself", "her": "herself", "it": "itself", "them": "themselves", "us": "ourselves", "me": "myself",
    "you": "yourself",
}  # fmt: skip
NUMBERS = "two three five ten"
EVENTS = "dinner lunch winter/- summer/- war concert wedding meeting party/parties trial"
_PERFECT = {
    "be": ("be", "been", "being"),
    "have": ("have", "had", "having"),
}


def plural(noun: str) -> str:
    if noun.endswith(("ch", "sh", "s", "x", "z")):
        return noun + "es"
    return noun + "s"


def verb_forms(lemma: str) -> Iterator[tuple[str, str, str, str]]:
    """Form, agreement (empty where there is none), tag and word of a verb."""
    consonant_y = lemma.endswith("y") and lemma[-2] not in "aeiou"
    if consonant_y:
        third = lemma[:-1] + "ies"
    else:
        third = plural(lemma)
    stem = lemma + lemma[-1] if lemma in DOUBLED or lemma in {"run"} else lemma
    if stem.endswith("e") and not stem.endswith("ee"):
        regular, ing = stem + "d", stem[:-1] + "ing"
    elif consonant_y:
        regular, ing = lemma[:-1] + "ied", lemma + "ing"
    else:
        regular, ing = stem + "ed", stem + "ing"
    past, participle = IRREGULAR.get(lemma, f"{regular} {regular}").split()
    yield "base", "", "VB", lemma
    yield "pres", "sg", "VBZ", third
    yield "pres", "pl", "VBP", lemma
    yield "pres", "i", "VBP", lemma
    yield "past", "", "VBD", past
    yield "pp", "", "VBN", participle
    yield "ing", "", "VBG", ing


def _nouns() -> Iterator[Entry]:
    for classes, words in NOUNS.items():
        c, *gender = classes.split()
        binds = gender or (["him", "her"] if c == "person" else ["it"])
        for word in words.split():
            singular, _, irregular = word.partition("/")
            for r in binds:
                yield Entry(singular, "NN", {"lemma": singular, "a": "sg", "c": c, "r": r}, 1 / len(binds))
            many = irregular or plural(singular)
            ending = "irregular" if irregular and not irregular.endswith("s") else "regular"
            features = {"lemma": singular, "a": "pl", "c": c, "r": "them", "plural": ending}
            yield Entry(many, "NNS", features)


def _verbs() -> Iterator[Entry]:
    for frame, lemmas in VERBS.items():
        kind, subject, *objects = frame.split()
        for lemma in lemmas.split():
            for form, agreement, tag, word in verb_forms(lemma):
                features = {"lemma": lemma, "k": kind, "s": subject, "f": form}
                if agreement:
                    features["a"] = agreement
                if objects:
                    features["o"] = objects[0]
                # "read" and "put" look alike in past and present; distinct forms say which were meant.
                features["same"] = "yes" if form == "pp" and IRREGULAR.get(lemma, "x x").split()[0] == word else "no"
                if form == "pp" and lemma not in IRREGULAR:
                    features["same"] = "yes"
                yield Entry(word, tag, features)


def _auxiliary(lemma: str, forms: str) -> Iterator[Entry]:
    """``forms``: form/agreement/tag/word; a leading hyphen on the agreement means that it is left open."""
    for item in forms.split():
        form, agreement, tag, word = item.split("/")
        features = {"lemma": lemma, "f": form}
        if agreement != "-":
            features["a"] = agreement
        yield Entry(word, tag, features)


def _plain(words: str, tag: str) -> list[Entry]:
    return [Entry(word, tag, {"lemma": word}) for word in words.split()]


def lexicon() -> dict[str, list[Entry]]:
    """Every lexical symbol of the grammar with its entries."""
    pronouns = [item.split("/") for item in PRONOUNS.split()]
    entries = {
        "N": list(_nouns()),
        "V": list(_verbs()),
        "Name": [
            Entry(name, "NNP", {"lemma": name, "a": "sg", "c": "person", "r": r})
            for r, names in NAMES.items()
            for name in names.split()
        ],
        "D": [
            Entry(word, "JJ" if word in {"many", "several"} else "DT", {"lemma": word, "a": a}, float(weight))
            for a, words in DETERMINERS.items()
            for word, weight in (item.split("/") for item in words.split())
        ],
        "Pron": [
            Entry(word, "PRP", {"lemma": word, "a": a, "r": r, "c": "thing" if r == "it" else "person"})
            for word, a, r in pronouns
        ],
        "PronObj": _plain(OBJECT_PRONOUNS, "PRP"),
        "Poss": _plain(POSSESSIVES, "PRP$"),
        "Refl": [Entry(word, "PRP", {"lemma": word, "r": r}) for r, word in REFLEXIVES.items()],
        "Num": _plain(NUMBERS, "CD"),
        "Event": [Entry(word, "NN", {"lemma": word}) for word in (w.split("/")[0] for w in EVENTS.split())],
        "Adj": [
            Entry(word, "JJ", {"lemma": word, "c": c}) for c, words in ADJECTIVES.items() for word in words.split()
        ],
        "P": [
            Entry(word, "IN", {"lemma": word, "c": frame.split()[0], "o": frame.split()[-1]})
            for frame, words in PREPOSITIONS.items()
            for word in words.split()
        ],
        "Be": list(
            _auxiliary(
                "be",
                "base/-/VB/be pp/-/VBN/been ing/-/VBG/being pres/sg/VBZ/is pres/pl/VBP/are pres/i/VBP/am "
                "past/sg/VBD/was past/pl/VBD/were past/i/VBD/was",
            )
        ),
        "Have": list(_auxiliary("have", "pres/sg/VBZ/has pres/pl/VBP/have pres/i/VBP/have past/-/VBD/had base/-/VB/have")),
        "Do": list(_auxiliary("do", "pres/sg/VBZ/does pres/pl/VBP/do pres/i/VBP/do past/-/VBD/did")),
        "Modal": _plain("will can must should would may", "MD"),
        "Day": _plain("Monday Friday Sunday", "NNP"),
    }
    for symbol, words in ADVERBS.items():
        entries[symbol] = _plain(words, "RB")
    return entries
