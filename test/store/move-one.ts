import type { Fence } from '../../src/store/claims.ts';
import type { Db } from '../../src/store/database.ts';
import { type CallMove, moveCalls } from '../../src/store/step-writes.ts';

/** Moves one call; `lost`: fenced. */
export async function moveOne(db: Db, fence: Fence, move: CallMove): Promise<string> {
  return (await moveCalls(db, fence, [move]))?.answers[0] ?? 'lost';
}
