"""The words of the sample grammar: tables of lemmas by class, and the forms made from them.

Features: ``a`` agreement (sg, pl, i), ``c`` the class of a noun, ``r`` the reflexive that a noun binds
(him, her, it, them, me, you, us), ``f`` the form of a verb (base, pres, past, pp, ing), ``k`` its frame,
``s`` and ``o`` the classes of its subject and object, ``bare`` whether it is also used without an object,
``same`` whether past and participle look alike, ``points`` this, that, these and those, ``ending`` the
last letter of a plural. A feature that an entry leaves open agrees with every value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pdtools.data.grammar import Entry

# Irregular plurals are written singular/plural.
NOUNS: dict[str, str] = {
    "person": """author doctor teacher lawyer farmer painter nurse singer senator driver guard judge
        manager pilot
        student soldier artist baker chef editor poet child/children""",
    "person him": "man/men boy king uncle father brother",
    "person her": "woman/women girl queen aunt mother sister",
    "animal": "dog cat horse goose/geese mouse/mice wolf/wolves",
    "doc": "book letter story/stories report novel poem diary/diaries article",
    "thing": "box key vase picture lamp chair table clock coat hat boat basket knife/knives",
    "food": "cake sandwich apple pie soup",
    "place": """garden village kitchen museum library/libraries office school station park forest castle
        church""",
}
NAMES = {"him": "Adam David Henry Martin Peter", "her": "Alice Clara Emma Maria Susan"}

# Past and participle of the irregular verbs.
IRREGULAR = {
    "bite": "bit bitten", "break": "broke broken", "buy": "bought bought", "catch": "caught caught",
    "eat": "ate eaten", "fall": "fell fallen", "find": "found found", "forget": "forgot forgotten",
    "give": "gave given", "hide": "hid hidden", "keep": "kept kept", "know": "knew known",
    "leave": "left left", "lose": "lost lost", "meet": "met met", "read": "read read", "run": "ran run",
    "say": "said said", "see": "saw seen", "sell": "sold sold", "send": "sent sent",
    "show": "showed shown", "sing": "sang sung", "sleep": "slept slept", "steal": "stole stolen",
    "tell": "told told", "think": "thought thought", "write": "wrote written",
}  # fmt: skip
DOUBLED = {"drop", "forget", "plan", "run"}

# Frame, class of the subject, class of the object: lemmas. "opt" are verbs that may have an object, "never"
# verbs that cannot (for garden paths); they stand in "intr" too.
VERBS: dict[str, str] = {
    "intr person": """sleep smile laugh cough wait arrive complain sing dance read write paint cook eat
        leave run
        watch""",
    "intr animal": "sleep eat run escape hide",
    "intr doc": "disappear vanish",
    "intr thing": "break fall vanish disappear",
    "intr food": "burn cool disappear",
    "intr place": "burn collapse",
    "trans person person": """admire help meet see visit thank follow praise criticize watch find hate
        love trust""",
    "trans person animal": "feed see watch follow catch find love chase",
    "trans person doc": "read write finish publish praise buy find lose keep steal",
    "trans person thing": "buy sell carry find lose break steal paint drop repair keep hide see",
    "trans person food": "eat cook buy bake find taste drop",
    "trans person place": "visit see paint clean leave find love",
    "trans animal animal": "chase bite watch follow see",
    "trans animal person": "bite chase follow watch see love",
    "trans animal food": "eat steal find taste",
    "trans doc person": "please surprise annoy amuse",
    "trans thing person": "please surprise annoy",
    "trans food person": "please surprise",
    "opt person doc": "read write",
    "opt person food": "eat cook",
    "opt person thing": "paint",
    "opt person place": "paint leave",
    "opt person person": "watch help follow visit",
    "opt animal food": "eat",
    "never person": "smile cough arrive complain laugh wait sleep",
    "refl person": "admire see criticize love trust hate praise help",
    "ditr person doc": "send give show hand offer tell sell",
    "ditr person thing": "send give show hand offer sell",
    "ditr person food": "give hand offer sell",
    "say person": "say think know believe claim",
    "ask person": "know ask wonder forget discover",
    "want person": "want hope plan try",
    "persuade person person": "ask persuade force help",
    "seem person": "seem appear",
}
# The sample does without these verbs; the models to try know them too.
MORE_VERBS = {"intr animal": "bark"}
ADJECTIVES = {
    "person": """old young tall clever famous happy honest kind nervous polite proud quiet rich sad
        tired angry""",
    "animal": "old young hungry quiet small big",
    "doc": "long short old famous new strange good",
    "thing": "old new heavy small big red blue cheap beautiful strange",
    "food": "cold hot sweet good",
    "place": "old new big small quiet beautiful famous empty",
}
ADVERBS = {
    "Manner": "quickly slowly quietly happily suddenly secretly",
    "Often": "often always sometimes rarely",
    "Degree": "very rather too",
    "Opener": "fortunately perhaps sadly today yesterday",
}
# Class of the noun before a preposition, class of the noun after it. "where": after a clause; "time":
# before an
# event.
PREPOSITIONS = {
    "person person": "near behind with",
    "person place": "from near in",
    "person thing": "with",
    "animal place": "in from near",
    "animal person": "near behind",
    "doc person": "by about from",
    "doc place": "about from",
    "doc thing": "on about",
    "thing thing": "on near",
    "thing place": "in from",
    "thing person": "from near",
    "food thing": "in on",
    "food person": "for from",
    "place place": "near behind",
    "where place": "in near behind",
    "time": "after before during",
}
DETERMINERS = {
    "sg": "the/14 a/6 this/1.5 that/1.5 every/1.5",
    "pl": "the/14 some/3 these/1.5 those/1.5 many/1.2 several/1.2",
}
PRONOUNS = "he/sg/him she/sg/her it/sg/it they/pl/them we/pl/us you/pl/you I/i/me"
OBJECT_PRONOUNS = "him her them us you me"
POSSESSIVES = {
    "him": "his",
    "her": "her",
    "it": "its",
    "them": "their",
    "us": "our",
    "me": "my",
    "you": "your",
}
REFLEXIVES = {
    "him": "himself", "her": "herself", "it": "itself", "them": "themselves", "us": "ourselves",
    "me": "myself", "you": "yourself",
}  # fmt: skip
NUMBERS = "two three ten"
EVENTS = "dinner winter war concert wedding meeting party"
DAYS = "Monday Friday Sunday"
MODALS = "will can must should may"
# Form, agreement ("-" where there is none), tag and word.
AUXILIARIES = {
    "Be": """base/-/VB/be pp/-/VBN/been ing/-/VBG/being pres/sg/VBZ/is pres/pl/VBP/are pres/i/VBP/am
        past/sg/VBD/was past/pl/VBD/were past/i/VBD/was""",
    "Have": "pres/sg/VBZ/has pres/pl/VBP/have pres/i/VBP/have past/-/VBD/had base/-/VB/have",
    "Do": "pres/sg/VBZ/does pres/pl/VBP/do pres/i/VBP/do past/-/VBD/did",
}


def plural(word: str) -> str:
    """The regular plural of a noun, and the third person of a verb."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("ch", "sh", "s", "x", "z")) else "s")


def verb_forms(lemma: str) -> Iterator[tuple[str, str, str, str]]:
    """Form, agreement ("-" where there is none), tag and word of a verb."""
    stem = lemma + lemma[-1] if lemma in DOUBLED else lemma
    if stem.endswith("e"):
        regular, ing = stem + "d", stem[:-1] + "ing"
    elif stem.endswith("y") and stem[-2] not in "aeiou":
        regular, ing = stem[:-1] + "ied", stem + "ing"
    else:
        regular, ing = stem + "ed", stem + "ing"
    past, participle = IRREGULAR.get(lemma, f"{regular} {regular}").split()
    yield "base", "-", "VB", lemma
    yield "pres", "sg", "VBZ", plural(lemma)
    yield "pres", "pl", "VBP", lemma
    yield "pres", "i", "VBP", lemma
    yield "past", "-", "VBD", past
    yield "pp", "-", "VBN", participle
    yield "ing", "-", "VBG", ing


def _nouns() -> Iterator[Entry]:
    for classes, words in NOUNS.items():
        c, *gender = classes.split()
        for word in words.split():
            singular, _, irregular = word.partition("/")
            many = irregular or plural(singular)
            features = {"lemma": singular, "c": c, "gender": gender[0] if gender else "none"}
            # A noun without gender may be he or she.
            binds = gender or (["him", "her"] if c == "person" else ["it"])
            for r in binds:
                yield Entry(singular, "NN", features | {"a": "sg", "r": r}, 1 / len(binds))
            ending = "s" if many.endswith("s") else "other"
            yield Entry(many, "NNS", features | {"a": "pl", "r": "them", "ending": ending})


def _verbs(more: Mapping[str, str]) -> Iterator[Entry]:
    verbs = {frame: f"{lemmas} {more.get(frame, '')}" for frame, lemmas in VERBS.items()}
    frames = [(*(*frame.split(), "")[:3], lemmas.split()) for frame, lemmas in verbs.items()]
    optional = {lemma for kind, _, _, lemmas in frames if kind in {"intr", "opt"} for lemma in lemmas}
    for kind, subject, object_, lemmas in frames:
        for lemma in lemmas:
            features = {"lemma": lemma, "k": kind, "s": subject}
            if object_:
                features |= {"o": object_, "bare": "yes" if lemma in optional else "no"}
            forms = list(verb_forms(lemma))
            past, participle = (
                next(word for form, _, _, word in forms if form == name) for name in ("past", "pp")
            )
            features["same"] = "yes" if past == participle else "no"
            for form, agreement, tag, word in forms:
                yield Entry(word, tag, features | {"f": form} | _agreement(agreement))


def _auxiliaries(lemma: str) -> list[Entry]:
    items = (item.split("/") for item in AUXILIARIES[lemma].split())
    return [Entry(word, tag, {"lemma": lemma, "f": form} | _agreement(a)) for form, a, tag, word in items]


def _agreement(value: str) -> dict[str, str]:
    return {} if value == "-" else {"a": value}


def _determiner(word: str, a: str, weight: str) -> Entry:
    features = {
        "lemma": word,
        "a": a,
        "points": "yes" if word in {"this", "that", "these", "those"} else "no",
    }
    return Entry(word, "JJ" if word in {"many", "several"} else "DT", features, float(weight))


def _plain(words: str, tag: str) -> list[Entry]:
    return [Entry(word, tag, {"lemma": word}) for word in words.split()]


def lexicon(more_verbs: Mapping[str, str] | None = None) -> dict[str, list[Entry]]:
    """Every lexical symbol of the grammar with its entries; ``more_verbs``: of frames, as in ``VERBS``."""
    return {
        "N": list(_nouns()),
        "V": list(_verbs(more_verbs or {})),
        "Name": [
            Entry(name, "NNP", {"lemma": name, "a": "sg", "c": "person", "r": r})
            for r, names in NAMES.items()
            for name in names.split()
        ],
        "D": [
            _determiner(word, a, weight)
            for a, items in DETERMINERS.items()
            for word, weight in (item.split("/") for item in items.split())
        ],
        "Pron": [
            Entry(word, "PRP", {"lemma": word, "a": a, "r": r, "c": "thing" if r == "it" else "person"})
            for word, a, r in (item.split("/") for item in PRONOUNS.split())
        ],
        "PronObj": _plain(OBJECT_PRONOUNS, "PRP"),
        "Poss": [Entry(word, "PRP$", {"lemma": word, "r": r}) for r, word in POSSESSIVES.items()],
        "Refl": [Entry(word, "PRP", {"lemma": word, "r": r}) for r, word in REFLEXIVES.items()],
        "Num": _plain(NUMBERS, "CD"),
        "Event": _plain(EVENTS, "NN"),
        "Day": _plain(DAYS, "NNP"),
        "Modal": _plain(MODALS, "MD"),
        "Adj": [
            Entry(word, "JJ", {"lemma": word, "c": c})
            for c, words in ADJECTIVES.items()
            for word in words.split()
        ],
        "P": [
            Entry(word, "IN", {"lemma": word, "c": frame.split()[0], "o": frame.split()[-1]})
            for frame, words in PREPOSITIONS.items()
            for word in words.split()
        ],
        **{symbol: _plain(words, "RB") for symbol, words in ADVERBS.items()},
        **{symbol: _auxiliaries(symbol) for symbol in AUXILIARIES},
    }
