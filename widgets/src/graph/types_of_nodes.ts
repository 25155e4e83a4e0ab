/** Types of values in words, as they stand in boxes and tables. */

import type { Structure } from "./structure";

/** The type of what a node gives first, without its device. */
export function typeOf(s: Structure, node: number): string {
  return s.text("type", node).split("@")[0]!;
}

/** The same with its device where there are several, as specs are written. */
export function specOf(s: Structure, node: number): string {
  return s.devices().length > 1 ? s.text("type", node).split(", ")[0]! : typeOf(s, node);
}
