import { type Fields, isFields } from './read-json.ts';

/** An error as the protocols have it. */
export type WireError = Readonly<{ message: string; type?: string; code?: string | number }>;

/** Fields of an answer. An object with one of them is no bare error. */
const ANSWER_KEYS = ['choices', 'content', 'output', 'delta'];

/**
 * The error that an object of a stream, or a whole body with status 200, tells in one of the usual forms. Null: none.
 */
export function errorIn(body: unknown): WireError | null {
  // Google wraps its errors in a list.
  const fields = Array.isArray(body) ? body[0] : body;
  if (!isFields(fields)) return null;
  const { error } = fields;
  if (error !== undefined && error !== null && error !== false && error !== '') return readError(error, fields);
  const isBare = !ANSWER_KEYS.some((key) => fields[key] !== undefined && fields[key] !== null);
  const isError = fields['object'] === 'error' || fields['type'] === 'error' || typeof fields['detail'] === 'string';
  return isBare && (isError || typeof fields['error_msg'] === 'string') ? readError(fields, fields) : null;
}

function readError(error: unknown, around: Fields): WireError {
  const own = isFields(error) ? error : {};
  const texts = [
    own['message'],
    own['msg'],
    own['detail'],
    own['error_msg'],
    error,
    around['message'],
    around['detail'],
  ];
  const message = texts.find((text): text is string => typeof text === 'string' && text !== '');
  const type = [own['type'], own['status']].find(
    (name): name is string => typeof name === 'string' && name !== 'error',
  );
  const code = [own['code'], own['error_code'], around['code']].find(isCode);
  return {
    message: message ?? JSON.stringify(error),
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
  };
}

const isCode = (value: unknown): value is string | number => typeof value === 'string' || typeof value === 'number';
