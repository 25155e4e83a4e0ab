/** Marks on boxes that run, are found, or are chosen; only changes touch the page. */

import type { Doing } from "./activity";
import type { Canvas } from "./canvas";

const CLASSES: Readonly<Record<Doing, string>> = {
  works: "ef-works", waits: "ef-waits", "moves data": "ef-moves",
}; // prettier-ignore

export class Marks {
  private lit = new Map<string, Doing>();
  private badges = new Map<string, string>();
  private hits = new Set<string>();
  private faulty = new Set<string>();
  private chosen: string | null = null;
  /** indices of the edges at the chosen box */
  private near: number[] = [];

  constructor(private readonly canvas: Canvas) {}

  /** Mark everything again, after boxes were drawn anew. */
  again(): void {
    const { lit, badges, hits, faulty, chosen } = this;
    this.lit = new Map<string, Doing>();
    this.badges = new Map<string, string>();
    this.hits = new Set<string>();
    this.faulty = new Set<string>();
    this.light(lit);
    this.number(badges);
    this.find(hits);
    this.blame(faulty);
    this.choose(chosen);
  }

  /** Mark boxes that are at work, by identifier. */
  light(doing: ReadonlyMap<string, Doing>): void {
    for (const [id, was] of this.lit) {
      if (doing.get(id) !== was) this.canvas.of(id)?.classList.remove(CLASSES[was]);
    }
    for (const [id, does] of doing) this.canvas.of(id)?.classList.add(CLASSES[does]);
    this.lit = new Map(doing);
  }

  /** Write texts below boxes: iterations, depths. */
  number(texts: ReadonlyMap<string, string>): void {
    for (const id of this.badges.keys()) if (!texts.has(id)) this.canvas.badge(id, "");
    for (const [id, text] of texts) if (this.badges.get(id) !== text) this.canvas.badge(id, text);
    this.badges = new Map(texts);
  }

  find(ids: ReadonlySet<string>): void {
    for (const id of this.hits) this.canvas.of(id)?.classList.remove("ef-found");
    for (const id of ids) this.canvas.of(id)?.classList.add("ef-found");
    this.hits = new Set(ids);
  }

  /** Mark boxes with a node that a diagnosis of the kernel names. */
  blame(ids: ReadonlySet<string>): void {
    for (const id of this.faulty) if (!ids.has(id)) this.canvas.of(id)?.classList.remove("ef-faulty");
    for (const id of ids) if (!this.faulty.has(id)) this.canvas.of(id)?.classList.add("ef-faulty");
    this.faulty = new Set(ids);
  }

  choose(id: string | null): void {
    if (this.chosen !== null) this.toggle(this.chosen, false);
    for (const edge of this.near) this.canvas.edge(edge)?.classList.remove("ef-near");
    this.chosen = id;
    if (id !== null) this.toggle(id, true);
    this.near = id === null ? [] : this.canvas.edgesAt(id);
    for (const edge of this.near) this.canvas.edge(edge)?.classList.add("ef-near");
  }

  private toggle(id: string, chosen: boolean): void {
    const element = this.canvas.of(id);
    element?.classList.toggle("ef-chosen", chosen);
    if (chosen) element?.setAttribute("aria-pressed", "true");
    else element?.removeAttribute("aria-pressed");
  }
}
