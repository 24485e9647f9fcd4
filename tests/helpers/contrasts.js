// Of all that has text of its own, outside of drawings: those whose colour is too near to that of the ground (WCAG: 4.5).
() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => a * top[i] + (1 - a) * under[i]); };
  const ground = getComputedStyle(document.documentElement).backgroundColor;
  const behind = (e) => (e === null ? parts(ground) : over(parts(getComputedStyle(e).backgroundColor), behind(e.parentElement)));
  const texts = [...document.querySelectorAll("body *:not(script, svg *, option, noscript)")]
    .filter((e) => e.checkVisibility() && !e.disabled && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
  const ratio = (e) => { const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  return { ground, texts: texts.length, faint: texts.filter((e) => ratio(e) < 4.5).map((e) => `${e.tagName}.${e.className} ${ratio(e).toFixed(1)} ${e.textContent.slice(0, 30)}`) };
}
