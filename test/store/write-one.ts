import type { Db } from '../../src/store/db/database.ts';
import type { Fence } from '../../src/store/work/claims.ts';
import { appendChunks, type CallMove, moveCalls, type TextChunk } from '../../src/store/work/step-writes.ts';

/** Moves one call; `lost`: fenced. */
export async function moveOne(db: Db, fence: Fence, move: CallMove): Promise<string> {
  return (await moveCalls(db, fence, [move]))?.answers[0] ?? 'lost';
}

/** Appends text to one message; false: fenced. */
export async function appendOne(
  db: Db,
  fence: Fence,
  messageId: string,
  chunks: readonly TextChunk[],
): Promise<boolean | undefined> {
  const [held] = await appendChunks(db, [{ fence, messageId, chunks }]);
  return held;
}
