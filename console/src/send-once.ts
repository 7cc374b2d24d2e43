import { useRef } from 'react';

const KEY_BYTES = 16;

type Send<Request, Answer> = (request: Request, idempotencyKey: string) => Promise<Answer>;
type Lost = Readonly<{ words: string; request: unknown; key: string }>;

/**
 * Sends requests that must not be done twice. One that has failed is sent again as it was, under its key: the service may
 * have done it, and only its answer was lost.
 * @returns called with the words by which the person who tries again means the same request
 */
export function useSendOnce(): <Request, Answer>(
  words: string,
  request: Request,
  send: Send<Request, Answer>,
) => Promise<Answer> {
  const lost = useRef<Lost | null>(null);
  return async <Request, Answer>(words: string, request: Request, send: Send<Request, Answer>): Promise<Answer> => {
    const before = lost.current?.words === words ? lost.current : { words, request, key: newKey() };
    lost.current = null;
    try {
      return await send(before.request as Request, before.key);
    } catch (error) {
      lost.current = before;
      throw error;
    }
  };
}

// `crypto.randomUUID` is missing in a page without TLS.
const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(KEY_BYTES)), (byte) => byte.toString(16).padStart(2, '0')).join('');
