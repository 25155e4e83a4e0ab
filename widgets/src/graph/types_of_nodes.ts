/** Types of values as texts for boxes and tables. */

import type { Structure } from "./structure";

/** The type of one of a node's values, the first by default, without its device. */
export function typeOf(s: Structure, node: number, output = 0): string {
  return s.text("type", node).split(", ")[output]?.split("@")[0] ?? "";
}

/** The type with its device, if there are several devices, as specs are written. */
export function specOf(s: Structure, node: number): string {
  return s.devices().length > 1 ? s.text("type", node).split(", ")[0]! : typeOf(s, node);
}
