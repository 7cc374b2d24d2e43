import { parseExactly } from '../../domain/exact-json.ts';
import { createJsonGauge } from '../../domain/json-bounds.ts';

/** A request that came over a WebSocket, as the body of `POST /v1/responses`. */
export type SocketRequest = Readonly<{ body: string; previousId: string | null; isStored: boolean }>;

export type SocketError = Readonly<{ status: number; code: string; message: string; param?: string | null }>;

/** The event of a request that was refused, or of a stream that ended early. */
export const errorFrame = ({ status, code, message, param = null }: SocketError, rest: object = {}): string =>
  JSON.stringify({ type: 'error', status, error: { type: typeOf(status), code, message, param }, ...rest });

const typeOf = (status: number): string => (status >= 500 ? 'server_error' : 'invalid_request_error');

const refused = (message: string, param: string | null = null): SocketError => ({
  ...{ status: 400, code: 'invalid_request', message, param },
});

/**
 * Reads a message of the client. It has the fields of `POST /v1/responses` beside its `type`, and is always answered by
 * a stream.
 */
export function readRequest(message: Buffer): SocketRequest | SocketError {
  const excess = createJsonGauge().take(message);
  if (excess !== null) return refused(`The message has too many ${excess}`);
  let value: unknown;
  try {
    value = parseExactly(message.toString('utf8'));
  } catch {
    return refused('The message is not valid JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return refused('The message is no object');
  const { type, stream: _, ...fields } = value as Record<string, unknown>;
  if (type !== 'response.create') return refused('only "response.create" is possible here', 'type');
  if (fields['background'] === true) return refused('not possible over a WebSocket', 'background');
  const previousId = fields['previous_response_id'];
  return {
    body: JSON.stringify({ ...fields, stream: true }),
    previousId: typeof previousId === 'string' ? previousId : null,
    isStored: fields['store'] !== false,
  };
}

/** An event of a stream. `data`: its JSON. */
export type SocketEvent = Readonly<{ type: string; data: string }>;

/** The events in a frame of a stream. Its comments are left out. */
export function eventsIn(frame: Buffer): SocketEvent[] {
  return frame
    .toString('utf8')
    .split('\n\n')
    .flatMap((block) => {
      const [, type, data] = /^event: (\S+)\ndata: (.*)$/.exec(block) ?? [];
      return type === undefined || data === undefined ? [] : [{ type, data }];
    });
}
