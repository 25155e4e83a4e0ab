/** Where things lie as groups open and close: what is there stays about where it is seen. */

import type { Contents } from "../graph/contents";
import { columnsOf, sideBySide } from "./columns";
import { contentsIn, inset, kept } from "./insets";
import { layered } from "./layered";
import type { Layouts } from "./layouts";
import type { Layout, Placed } from "./types";

/** layouts from before groups were opened that are remembered */
const REMEMBERED = 32;
/** milliseconds that readers wait for Graphviz: with a picture before them, and with nothing to see */
const PATIENCE = { picture: 2000, nothing: 400 } as const;

interface Arranged {
  readonly contents: Contents;
  readonly layout: Layout;
}

type Lay = (contents: Contents) => Promise<Layout>;

/**
 * Each change gives its versions, as they come: one, or, where Graphviz takes longer than readers
 * wait, one by the layout of our own and later that of Graphviz. It ends early where something else
 * is asked for.
 */
export class Arrangement {
  private now: Arranged | null = null;
  /** how things lay before each group was opened: it is so again when that is closed */
  private before: Arranged[] = [];
  private asked = 0;

  constructor(private readonly layouts: Layouts) {}

  /** All laid out anew. */
  anew(contents: Contents): AsyncGenerator<Layout> {
    return this.versions(contents, [], (lay) => whole(contents, lay));
  }

  /**
   * What is open has changed.
   * @param seen the part of the picture that is seen, by its top left
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
        const inner = await lay(contentsIn(contents, group!, layout));
        layout = inset(layout, group!, inner, contents, seen);
      }
      return contents.boxes.every((b) => layout.boxes.has(b.id)) ? layout : whole(contents, lay);
    });
  }

  private async *versions(
    contents: Contents, before: Arranged[], make: (lay: Lay) => Promise<Layout>,
  ): AsyncGenerator<Layout> {
    const asked = this.begin();
    const simple: Lay = (part) => Promise.resolve(layered(part));
    const best = make(async (part) => (await this.layouts.lay(part)) ?? simple(part));
    const isSeen = this.now !== null && this.layouts.ready;
    const soon = await Promise.race([best, after(isSeen ? PATIENCE.picture : PATIENCE.nothing)]);
    for (const version of soon ? [best] : [make(simple), best]) {
      const layout = await version;
      if (asked !== this.asked) return;
      yield this.keep(contents, layout, before);
    }
  } // prettier-ignore

  /** Nobody wants any more what was asked for before. */
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

async function whole(contents: Contents, lay: Lay): Promise<Layout> {
  const columns = columnsOf(contents);
  if (!columns.length) return lay(contents);
  const layouts: Layout[] = [];
  for (const column of columns) layouts.push(await lay(column));
  return sideBySide(columns, layouts, contents);
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
