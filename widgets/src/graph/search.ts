/** The search field of a graph: each press of Enter goes to the next node found. */

import { html, KEYS, setText } from "../dom";
import { count } from "../format";
import type { Structure } from "./structure";

/** columns of a node that are searched */
const COLUMNS = ["op", "name", "scope", "source", "resources"] as const;

export interface SearchEvents {
  /** called when the nodes found have changed */
  changed(): void;
  /** called to show a node found */
  reach(node: number): void;
  ended(): void;
}

export class Search {
  readonly field: HTMLInputElement = html("input", {
    type: "search", placeholder: "search op, name, scope, line", "aria-label": "search", ...KEYS,
  }); // prettier-ignore
  readonly hits = html("span", { class: "ef-hits", role: "status" });
  /** nodes found, the next one first */
  matches: number[] = [];
  private structure: Structure | null = null;

  constructor(private readonly events: SearchEvents) {
    this.field.addEventListener("input", () => { this.find(); }); // prettier-ignore
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next();
      if (event.key === "Escape") this.end();
    });
  }

  /** Search another graph for the same text. */
  within(structure: Structure): void {
    this.structure = structure;
    this.find();
  }

  private find(): void {
    const wanted = this.field.value.trim().toLowerCase();
    const s = this.structure;
    this.matches = [];
    for (let i = 0; s && wanted && i < s.count; i++) {
      if (COLUMNS.some((name) => s.text(name, i).toLowerCase().includes(wanted))) this.matches.push(i);
    }
    setText(this.hits, wanted ? `${count(this.matches.length)} found` : "");
    this.events.changed();
  }

  private next(): void {
    const node = this.matches.shift();
    if (node === undefined) return;
    this.matches.push(node);
    this.events.reach(node);
  }

  private end(): void {
    this.field.value = "";
    this.find();
    this.events.ended();
  }
}
