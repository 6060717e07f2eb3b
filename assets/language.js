// Which language this page is in, told by its path: <html lang>, the title, and the link to the
// same page in the other language, which keeps the query. Works under any root path and in a frame.
(() => {
  "use strict";
  const titles = window.sporkTitles;
  const path = location.pathname.replace(/\/+$/, "");
  const code = Object.keys(titles).find((name) => path.endsWith("/" + name)) || "en";

  // Gradio writes the visitor's own language and one title for all pages; the path knows better.
  const keep = () => {
    if (document.documentElement.lang !== code) document.documentElement.lang = code;
    if (document.title !== titles[code]) document.title = titles[code];
  };
  keep();
  const watched = { attributes: true, attributeFilter: ["lang"] };
  new MutationObserver(keep).observe(document.documentElement, watched);
  new MutationObserver(keep).observe(document.head, { childList: true, subtree: true, characterData: true });

  function address(other) {
    const here = location.pathname.replace(/\/+$/, "");
    const root = code === "en" ? here : here.slice(0, -code.length - 1);
    return root + "/" + (other === "en" ? "" : other) + location.search + location.hash;
  }
  const follow = (event) => {
    const link = event.target.closest?.("a.other-language");
    if (link) link.href = address(link.hreflang);
  };
  for (const name of ["pointerover", "focusin", "click"]) document.addEventListener(name, follow, true);
})();
