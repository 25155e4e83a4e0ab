/** The interface of views: an element, and notifications of when to draw. */

export interface View {
  readonly element: HTMLElement;
  /** The kernel has sent a message. */
  update(seen: boolean): void;
  /** The size or the theme has changed, or the view has become visible. */
  resize(): void;
  dispose(): void;
}
