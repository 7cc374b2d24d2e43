import { z } from 'zod';

/** The rest of a list with more wrong items is not looked at: an error takes many times as long as a right value. */
const MAX_WRONG_ITEMS = 20;

type BoundedListDef = z.core.$ZodArrayDef & Readonly<{ maxItems: number }>;

/** zod's array, but for the end of its work after a few wrong items. https://zod.dev/library-authors */
const BoundedList = z.core.$constructor<z.ZodArray, BoundedListDef>('BoundedList', (inst, def) => {
  z.ZodArray.init(inst, def);
  const parseWhole = inst._zod.parse;
  inst._zod.parse = (payload, ctx) => {
    const { value } = payload;
    if (!Array.isArray(value) || value.length > def.maxItems) return parseWhole(payload, ctx);
    const items: unknown[] = [];
    let wrong = 0;
    for (const [index, item] of value.entries()) {
      const result = def.element._zod.run({ value: item, issues: [] }, ctx);
      if (result instanceof Promise) throw new z.core.$ZodAsyncError();
      items.push(result.value);
      if (result.issues.length === 0) continue;
      payload.issues.push(...z.core.util.prefixIssues(index, result.issues));
      wrong++;
      if (wrong === MAX_WRONG_ITEMS) break;
    }
    payload.value = items;
    return payload;
  };
});

/** A list of at most so many items: a longer one is refused before any of them is looked at. */
export function listOf<Item extends z.ZodType>(item: Item, maxItems: number): z.ZodArray<Item> {
  return new BoundedList({ type: 'array', element: item, maxItems }).max(maxItems) as z.ZodArray<Item>;
}
