import type { ToolContext } from './tool.ts';

const MAX_PAGE_CHARS = 20_000;

/**
 * The page with the most items that the model would be shown whole; at least one item.
 * @param most number of items
 * @param render the page of the first `length` items; more items make it longer
 */
export function largestPage(
  most: number,
  isShownWhole: ToolContext['isShownWhole'],
  render: (length: number) => string,
): string {
  let best = render(1);
  for (let [least, beyond] = [1, most + 1]; beyond - least > 1; ) {
    const middle = (least + beyond) >> 1;
    const page = render(middle);
    if (page.length <= MAX_PAGE_CHARS && isShownWhole?.(page) !== false) {
      best = page;
      least = middle;
    } else {
      beyond = middle;
    }
  }
  return best;
}
