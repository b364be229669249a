// Before anything is drawn: the colours that the reader chose on an earlier page.
(() => {
  try {
    const name = localStorage.getItem("deepsea-theme");
    if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
  } catch { /* nothing is kept here */ }
})();
