/** A graph before and after a pass, side by side: removed, new and changed nodes. */

import { button, html, select, setText } from "../dom";
import type { Feed } from "../feed/feed";
import { Canvas } from "../graph/canvas";
import { contentsOf, groupsToOpen, type Box, type Contents } from "../graph/contents";
import { GroupTree, type Group } from "../graph/groups";
import { Arrangement } from "../layout/arrangement";
import { Layouts } from "../layout/layouts";
import { changesOf, type Change, type Stage } from "./stages";

/** limit of boxes in each picture: further groups stay closed */
const MOST = 60;
const SIGNS: Readonly<Record<Change, string>> = { gone: "−", new: "+", other: "~" };

export class PassesView {
  readonly element = html("div", { class: "ef-passes" });
  private readonly report = html("pre", { class: "ef-report" });
  private readonly panes: readonly [Pane, Pane];
  private readonly choice: HTMLSelectElement;
  private stages: readonly Stage[] = [];
  private open = new Set<string>();

  constructor(feed: Feed | null, closed: () => void) {
    const act = {
      toggle: (id: string) => { if (!this.open.delete(id)) this.open.add(id); this.draw(); },
      choose: (name: string | null) => { for (const pane of this.panes) pane.choose(name); },
    }; // prettier-ignore
    this.panes = [new Pane("before", feed, act), new Pane("after", feed, act)];
    this.panes[0].canvas.pairWith(this.panes[1].canvas);
    this.choice = select("pass", [], (at) => { this.show(Number(at)); }); // prettier-ignore
    const step = (by: number) => () => {
      this.show(Math.min(Math.max(Number(this.choice.value) + by, 0), this.stages.length - 1));
    };
    this.element.append(
      html("div", { class: "ef-tools", role: "toolbar", "aria-label": "passes" },
        button("◂", "the pass before", step(-1)), this.choice, button("▸", "the next pass", step(1)),
        html("span", { class: "ef-hits" }, "− gone, + new, ~ changed"),
        button("×", "back to the graph", closed)),
      html("div", { class: "ef-split" }, ...this.panes.map((pane) => pane.element)),
      this.report,
    ); // prettier-ignore
  }

  load(stages: readonly Stage[]): void {
    this.stages = stages;
    this.choice.replaceChildren(...stages.map((stage, i) =>
      html("option", { value: i }, `${i + 1}. ${stage.lines[0] ?? stage.name}`))); // prettier-ignore
    setText(this.report, stages.length ? "" : "No pass has changed this graph.");
    if (stages.length) this.show(0);
  }

  resize(): void {
    for (const pane of this.panes) pane.resize();
  }

  dispose(): void {
    for (const pane of this.panes) pane.dispose();
  }

  private show(at: number): void {
    const stage = this.stages[at];
    if (!stage) return;
    this.choice.value = String(at);
    this.report.replaceChildren(...stage.lines.slice(1).map((line) => html("span", {}, line)));
    const changes = changesOf(stage);
    this.open = new Set();
    this.panes.forEach((pane, i) => {
      const tree = new GroupTree(i ? stage.after : stage.before, "scope");
      pane.load(tree, changes[i]!);
      for (const id of openAround(tree, changes[i]!)) this.open.add(id);
    });
    this.draw();
  }

  private draw(): void {
    for (const pane of this.panes) void pane.draw(this.open);
  }
}

/** Groups to open so that changes are visible, as far as there is room. */
function openAround(tree: GroupTree, changes: ReadonlyMap<number, Change>): Set<string> {
  const open = new Set([tree.root.id]);
  for (const node of changes.keys()) {
    const more = new Set(open);
    for (let g: Group | null = tree.homes[node]!; g; g = g.parent) more.add(g.id);
    if (contentsOf(tree, more).boxes.length > MOST) break;
    for (const id of more) open.add(id);
  }
  return open.size > 1 ? open : groupsToOpen(tree, MOST / 2);
}

interface Act {
  toggle(id: string): void;
  choose(name: string | null): void;
}

/** One of the two pictures. */
class Pane {
  readonly element: HTMLElement;
  readonly canvas: Canvas;
  private readonly layouts: Layouts;
  private readonly arrangement: Arrangement;
  private readonly count = html("small", {});
  private tree: GroupTree | null = null;
  private contents: Contents | null = null;
  private changes: ReadonlyMap<number, Change> = new Map();

  constructor(private readonly title: string, feed: Feed | null, act: Act) {
    this.layouts = new Layouts(feed);
    this.arrangement = new Arrangement(this.layouts);
    this.canvas = new Canvas({
      select: (box) => { act.choose(box && this.nameOf(box)); },
      toggle: (box) => { if (box.group) act.toggle(box.group.id); },
      close: (group) => { act.toggle(group); },
      key: () => undefined,
    }); // prettier-ignore
    this.element = html("figure", { class: "ef-picture" },
      html("figcaption", {}, title, " ", this.count), this.canvas.element, this.canvas.minimap); // prettier-ignore
  }

  load(tree: GroupTree, changes: ReadonlyMap<number, Change>): void {
    this.tree = tree;
    this.changes = changes;
    setText(this.count, `${tree.structure.count} nodes, ${changes.size} marked`);
    this.canvas.element.setAttribute("aria-label", `graph ${tree.structure.graph} ${this.title} the pass`);
  }

  async draw(open: ReadonlySet<string>): Promise<void> {
    if (!this.tree) return;
    const contents = contentsOf(this.tree, open);
    const still = this.contents?.root === contents.root;
    for await (const layout of this.arrangement.next(contents, this.canvas.window)) {
      this.contents = contents;
      this.canvas.show(contents, layout, still);
      this.mark(contents);
      const changed = still ? null : this.firstChange(contents);
      if (changed) this.canvas.reveal(changed);
    }
  }

  choose(name: string | null): void {
    for (const box of this.contents?.boxes ?? []) {
      const chosen = name !== null && this.nameOf(box) === name;
      this.canvas.of(box.id)?.classList.toggle("ef-chosen", chosen);
      if (chosen) this.canvas.reveal(box);
    }
  }

  resize(): void {
    this.canvas.resize();
  }

  dispose(): void {
    this.layouts.close();
  }

  private nameOf(box: Box): string {
    return box.node < 0 ? box.id : this.tree!.structure.text("name", box.node);
  }

  /** The box of the first changed node. */
  private firstChange(contents: Contents): Box | null {
    for (const node of this.changes.keys()) {
      const box = contents.boxOf[node];
      if (box) return box;
    }
    return null;
  }

  /** Write the number of changed nodes on closed groups. */
  private mark(contents: Contents): void {
    const counts = new Map<Box, Map<Change, number>>();
    for (const [node, change] of this.changes) {
      const box = contents.boxOf[node];
      if (!box) continue;
      const known = counts.get(box) ?? new Map<Change, number>();
      known.set(change, (known.get(change) ?? 0) + 1);
      counts.set(box, known);
    }
    for (const box of contents.boxes) {
      const known = counts.get(box);
      const element = this.canvas.of(box.id);
      for (const change of ["gone", "new", "other"] as const) {
        element?.classList.toggle(`ef-${change}`, known?.has(change) ?? false);
      }
      const texts = [...(known ?? [])].map(([change, n]) => `${SIGNS[change]}${box.group ? n : ""}`);
      this.canvas.badge(box.id, texts.join(" "));
    }
  }
}
