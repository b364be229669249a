// What the page's address says: which game, turn and view.

/** The page's address as the place for `turn`, `seat` and the like: the hash, or the query. */
export function address() {
  const inHash = location.protocol === "file:" || location.hash.includes("=");
  return { inHash, params: new URLSearchParams(inHash ? location.hash.slice(1) : location.search) };
}

/** The same address with these parameters; null takes one away. */
export function addressWith(changes) {
  const { inHash, params } = address();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) params.delete(key); else params.set(key, value);
  }
  const text = params.toString();
  return inHash ? `#${text}` : `${location.pathname}${text ? `?${text}` : ""}`;
}
