/** Marks on boxes, open groups and legend entries of tasks that are lost, ended or silent. */

import type { Feed } from "../feed/feed";
import { awayNow, SAID, taskOf, type Absence } from "../feed/tasks";
import type { Canvas } from "./canvas";
import type { Box, Contents } from "./contents";
import type { Structure } from "./structure";

type Away = ReadonlyMap<string, Absence["health"]>;

const CLASSES = ["ef-lost", "ef-suspect", "ef-gone"] as const;

export class AwayMarks {
  private marked: Contents | null = null;
  private told = -1;

  constructor(
    private readonly canvas: Canvas,
    private readonly legend: HTMLElement,
    private readonly feed: Feed | null,
  ) {}

  /** Mark tasks that are away now; touches nothing if there is no change. */
  mark(contents: Contents, structure: Structure, again = false): void {
    const told = this.feed?.revision("tasks") ?? 0;
    if (!this.feed || (!again && contents === this.marked && told === this.told)) return;
    [this.marked, this.told] = [contents, told];
    const away = awayNow(this.feed);
    this.markBoxes(contents, awayBoxes(contents, structure, away));
    this.markGroups(contents, away);
    this.markLegend(away);
  }

  private markBoxes(contents: Contents, boxes: ReadonlyMap<Box, Absence["health"]>): void {
    for (const box of contents.boxes) {
      const element = this.canvas.of(box.id);
      if (!element) continue;
      const health = boxes.get(box);
      const was = CLASSES.some((name) => element.classList.contains(name));
      put(element, health);
      if (was || health) this.canvas.badge(box.id, health ? SAID[health] : "");
    }
  }

  private markGroups(contents: Contents, away: Away): void {
    for (const group of contents.clusters) {
      const all = [...group.devices].map((device) => away.get(taskOf(device)));
      const frame = this.canvas.frame(group.id);
      if (frame) put(frame, all.every((health) => health) ? all[0] : undefined);
    }
  }

  private markLegend(away: Away): void {
    for (const entry of this.legend.querySelectorAll<HTMLElement>("[data-device]")) {
      const device = entry.dataset["device"]!;
      const health = away.get(taskOf(device));
      put(entry, health);
      entry.lastChild!.textContent = health ? `${device} (${SAID[health]})` : device;
    }
  }
}

/** Boxes with a node on a task that is away, with the health of the task. */
function awayBoxes(contents: Contents, structure: Structure, away: Away): Map<Box, Absence["health"]> {
  const healthOf = new Map<Box, Absence["health"]>();
  if (!away.size) return healthOf;
  contents.boxOf.forEach((box, node) => {
    const health = box && away.get(taskOf(structure.text("device", node)));
    if (health) healthOf.set(box, health);
  });
  return healthOf;
}

function put(element: Element, health: Absence["health"] | undefined): void {
  for (const name of CLASSES) element.classList.toggle(name, name === `ef-${health ?? ""}`);
}
