// A code that came in the fragment of the address: into the form, and out of the address.

function fill() {
  const code = decodeURIComponent(location.hash.slice(1)).trim();
  if (!/^[A-Za-z0-9 -]{16,64}$/.test(code)) return;
  document.getElementById("f-code").value = code;
  history.replaceState(null, "", location.pathname);
  document.querySelector(".own-form button").focus();
}

try { fill(); } catch { /* what is no code stays in the address */ }
addEventListener("hashchange", () => { try { fill(); } catch { /* as above */ } });
