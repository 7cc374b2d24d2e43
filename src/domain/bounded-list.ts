import { z } from 'zod';

/** Wrong items after which the rest of a list is not checked: an error costs many times as much as a valid item. */
const MAX_WRONG_ITEMS = 20;

type BoundedListDef = z.core.$ZodArrayDef & Readonly<{ maxItems: number }>;

/** zod's array, but it stops after `MAX_WRONG_ITEMS`. https://zod.dev/library-authors */
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

/** A longer list is refused before any item is checked. */
export function listOf<Item extends z.ZodType>(item: Item, maxItems: number): z.ZodArray<Item> {
  return new BoundedList({ type: 'array', element: item, maxItems }).max(maxItems) as z.ZodArray<Item>;
}
