/** Arrangements as groups open and close: the remaining boxes stay about where they were. */

import type { Contents } from "../graph/contents";
import { columnsOf, sideBySide } from "./columns";
import { contentsIn, inset, kept } from "./insets";
import { layered } from "./layered";
import type { Layouts } from "./layouts";
import { scaleIn, type Flow, type Layout, type Placed, type Size } from "./types";

/** number of layouts from before groups were opened that are kept */
const REMEMBERED = 32;
/** milliseconds that readers wait for Graphviz: with a picture to look at, and without one */
const PATIENCE = { picture: 2000, nothing: 400 } as const;

/** number of boxes from which on one direction only is tried: Graphviz would take long for both */
const BOTH = 60;
/** ratio of scales from which on a graph is drawn from left to right */
const WORTH = 1.1;

interface Arranged {
  readonly contents: Contents;
  readonly layout: Layout;
}

type Lay = (contents: Contents, flow: Flow) => Promise<Layout>;

/**
 * Each change yields one or two layouts: if Graphviz takes longer than readers wait, first a layout
 * of our own and later that of Graphviz. The generator ends early when another change is requested.
 * is asked for.
 */
export class Arrangement {
  private now: Arranged | null = null;
  /** arrangements from before each group was opened, restored when it is closed */
  private before: Arranged[] = [];
  private asked = 0;

  constructor(private readonly layouts: Layouts) {}

  /**
   * A new layout of everything.
   * @param room size of the view: of the two directions, the one with the larger scale is taken
   */
  anew(contents: Contents, room: Size | null = null): AsyncGenerator<Layout> {
    return this.versions(contents, [], (lay) => whole(contents, lay, room));
  }

  /**
   * A layout after a change of the open groups.
   * @param seen the visible part of the picture, by its top left
   */
  async *next(contents: Contents, seen: Placed): AsyncGenerator<Layout> {
    const { now } = this;
    if (!now || now.contents.root !== contents.root) {
      yield* this.anew(contents);
      return;
    }
    const known = this.before.findIndex((b) => sameOpen(b.contents, contents));
    if (known >= 0) {
      this.begin();
      yield this.keep(contents, this.before[known]!.layout, this.before.slice(0, known));
      return;
    }
    const open = new Set(contents.clusters);
    const opened = now.contents.boxes.filter((b) => b.group && open.has(b.group));
    const before = opened.length ? [...this.before.slice(1 - REMEMBERED), now] : this.before;
    yield* this.versions(contents, before, async (lay) => {
      let layout = kept(now.layout, contents, opened);
      for (const { group } of opened) {
        const inner = await lay(contentsIn(contents, group!, layout), now.layout.flow);
        layout = inset(layout, group!, inner, contents, seen);
      }
      return contents.boxes.every((b) => layout.boxes.has(b.id)) ? layout : whole(contents, lay, null);
    });
  }

  private async *versions(
    contents: Contents, before: Arranged[], make: (lay: Lay) => Promise<Layout>,
  ): AsyncGenerator<Layout> {
    const asked = this.begin();
    const simple: Lay = (part) => Promise.resolve(layered(part));
    const best = make(async (part, flow) => (await this.layouts.lay(part, flow)) ?? simple(part, flow));
    const isSeen = this.now !== null && this.layouts.ready;
    const soon = await Promise.race([best, after(isSeen ? PATIENCE.picture : PATIENCE.nothing)]);
    for (const version of soon ? [best] : [make(simple), best]) {
      const layout = await version;
      if (asked !== this.asked) return;
      yield this.keep(contents, layout, before);
    }
  } // prettier-ignore

  /** Abandon the previous request. */
  private begin(): number {
    this.layouts.abandon();
    return ++this.asked;
  }

  private keep(contents: Contents, layout: Layout, before: Arranged[]): Layout {
    this.now = { contents, layout };
    this.before = before;
    return layout;
  }
}

async function whole(contents: Contents, lay: Lay, room: Size | null): Promise<Layout> {
  const columns = columnsOf(contents);
  if (!columns.length) return fitting(contents, lay, room);
  const layouts: Layout[] = [];
  for (const column of columns) layouts.push(await lay(column, "down"));
  return sideBySide(columns, layouts, contents);
}

/** The layout in the direction with the larger scale. */
async function fitting(contents: Contents, lay: Lay, room: Size | null): Promise<Layout> {
  const down = await lay(contents, "down");
  const scale = room ? scaleIn(down, room) : 1;
  if (!room || scale >= 1 || contents.boxes.length > BOTH) return down;
  const right = await lay(contents, "right");
  return scaleIn(right, room) > WORTH * scale ? right : down;
}

function after(milliseconds: number): Promise<null> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds, null);
  });
}

function sameOpen(a: Contents, b: Contents): boolean {
  return a.clusters.length === b.clusters.length && a.clusters.every((g, i) => g === b.clusters[i])
    && a.boxes.length === b.boxes.length;
} // prettier-ignore
