/** The costs of layers in a step, forward, backward and in updates: a table sorted by any column. */

import { html } from "../dom";
import type { Feed } from "../feed/feed";
import { number } from "../feed/tables";
import { bytes, count, seconds, share } from "../format";
import { layerName, Layers, overlapText, PHASES, type LayerCost, type Phase } from "../graph/layers";
import type { Structure } from "../graph/structure";
import { SortedTable, type Column } from "./sorted_table";
import type { View } from "./view";

function figure(name: string, said: string, value: (line: LayerCost) => number, word: (value: number) => string): Column<LayerCost> {
  const text = (line: LayerCost): string => (value(line) > 0 ? word(value(line)) : "–");
  return { name, said, isNumber: true, key: value, text };
}

function ofPhase(phase: Phase, said: string): Column<LayerCost> {
  return figure(phase, said, ({ phases }) => phases[phase], share);
}

const COLUMNS: readonly Column<LayerCost>[] = [
  {
    name: "layer", said: "its name scope", isNumber: false,
    key: ({ name }) => name, text: ({ name }) => layerName(name),
  },
  figure("time a step", "of its ops, their derivatives and the updates of its variables", (l) => l.seconds, seconds),
  figure("of a step", "its part of the time of a step", (l) => l.share, share),
  ofPhase("forward", "its ops, as a part of a step"),
  ofPhase("backward", "their derivatives, as a part of a step"),
  ofPhase("update", "the updates of its variables, as a part of a step"),
  figure("parameters", "elements of the trainable variables that it reads", (l) => l.parameters, count),
  figure("values", "the size of all values that its nodes give in a step", (l) => l.bytes, bytes),
  { name: "gives", said: "the type of its output", isNumber: false, key: (l) => l.gives, text: (l) => l.gives },
  figure("order", "its place in the forward pass", (l) => l.place, count),
]; // prettier-ignore
const [SECONDS, SHARE] = [1, 2];

export class LayersView implements View {
  readonly element = html("div", { class: "ef-nodes ef-timed" });
  private readonly empty = html("p", { class: "ef-empty" }, "Layers appear with the first step of a running function.");
  private readonly table: SortedTable<LayerCost>;
  private layers: Layers | null = null;
  private graph = "";
  private executable = 0;
  private drawn = "";

  constructor(private readonly feed: Feed) {
    this.table = new SortedTable("layers", COLUMNS, SECONDS, {
      choose: ({ node }) => { feed.choose({ executable: this.executable, node }); },
      resort: () => { this.update(true); },
      dress: (row, line) => { row.cells[SHARE]!.style.setProperty("--ef-share", String(Math.min(line.share, 1))); },
    }); // prettier-ignore
    this.table.element.hidden = true;
    this.element.append(this.table.element, this.empty);
  }

  show(structure: Structure, executable: number): void {
    this.layers = new Layers(structure);
    this.graph = structure.graph;
    this.executable = executable;
    this.drawn = "";
    this.update(true);
  }

  update(seen: boolean): void {
    const { layers } = this;
    if (!seen || !layers) return;
    const { order } = this.table;
    const now = [this.executable, this.feed.revision("nodes"), order.by, order.down].join();
    if (now === this.drawn) return;
    this.drawn = now;
    const rows = [...this.feed.table("nodes")].filter((row) => number(row, "executable") === this.executable);
    const costs = layers.costs(rows);
    this.table.element.hidden = false;
    this.empty.hidden = true;
    this.table.show(costs, this.caption(costs, layers, rows.length > 0));
    this.table.mark(-1);
  }

  private caption(costs: readonly LayerCost[], layers: Layers, observed: boolean): string {
    const named = costs.filter(({ name }) => name).length;
    const parameters = costs.reduce((sum, { parameters }) => sum + Math.max(parameters, 0), 0);
    const parts = layers.parts(costs);
    const phases = layers.phases ? PHASES.map((phase) => `${phase} ${share(parts[phase])}`).join(", ") : "";
    return [
      `${this.graph}: ${count(named)} layers, ${count(parameters)} parameters`,
      observed ? phases && `of a step: ${phases}` : "none observed yet",
      overlapText(costs),
    ].filter(Boolean).join(" · ");
  } // prettier-ignore

  resize(): void {
    this.update(true);
  }

  dispose(): void {
    this.layers = null;
  }
}
