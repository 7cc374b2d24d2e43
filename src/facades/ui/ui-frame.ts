import type { UIMessageChunk } from 'ai';

/** One piece of a UI message stream: a chunk, or a comment, which clients ignore. */
export type UiFrame = UIMessageChunk | Readonly<{ comment: string }>;

export function toUiFrame(frame: UiFrame): string {
  return 'comment' in frame ? `: ${frame.comment}\n\n` : `data: ${JSON.stringify(frame)}\n\n`;
}

export const DONE_FRAME = 'data: [DONE]\n\n';

export const UI_STREAM_HEADERS = { 'x-vercel-ai-ui-message-stream': 'v1', 'cache-control': 'no-cache' } as const;
