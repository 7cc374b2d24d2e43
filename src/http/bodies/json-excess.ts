import type { JsonExcess } from '../../domain/json-bounds.ts';
import { MAX_JSON_DEPTH, MAX_JSON_VALUES } from '../../domain/tunables.ts';
import { ProblemError } from './problem.ts';

/** The refusal of a body that is more than its validation may cost. */
export function tooManyValues(excess: JsonExcess): ProblemError {
  if (excess === 'levels') {
    return new ProblemError('invalid_request', `The body has a value that is more than ${MAX_JSON_DEPTH} levels deep`);
  }
  const detail = `The body has more than ${MAX_JSON_VALUES} JSON values: send less at once, or as a text or a file`;
  return new ProblemError('payload_too_large', detail);
}
