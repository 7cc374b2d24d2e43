import type { HttpToolConfig } from '../../agents/tool-sources.ts';
import { BatonError } from '../../domain/errors.ts';
import { parseExactly } from '../../domain/exact-json.ts';
import { bareMediaType, SNIFFED_MEDIA_TYPES } from '../../domain/media-type.ts';
import { NoRoom } from '../../platform/arriving-bytes.ts';
import { addressOf, currentTraceparent, describeActiveSpan } from '../../platform/tracing.ts';
import { type Environment, headersFrom, requireVariable } from '../environment.ts';
import { mediaNotice } from '../media-notice.ts';
import type { ServerTool, ToolContext } from '../tool.ts';
import { type GuardedResponse, type OutboundPolicy, RequestFailed, sendGuarded } from './guarded-request.ts';
import { signRequest } from './sign-request.ts';

/** Time to end and answer a call before the runner's own limit. */
const TIMEOUT_MARGIN_MS = 5_000;
/** Characters of a refusal's body that the model reads. */
const ERROR_BODY_CHARS = 2_000;
const TEXT_TYPES = /^(?:text\/|application\/(?:.*\+)?(?:json|xml|yaml|javascript)(?:$|;))/;
const JSON_TYPES = /^application\/(?:.*\+)?json(?:$|;)/;

/**
 * A tool that is an HTTP endpoint: it gets the input with the ids of the call, and its response is the result. The call
 * key is the `Idempotency-Key`; with a secret the request is signed.
 * @param key of the agent that defines it, for errors
 * @throws BatonError `config_invalid` for a variable that is not set
 */
export function createHttpTool(
  config: HttpToolConfig,
  environment: Environment,
  policy: OutboundPolicy,
  key: string,
): ServerTool {
  const headers = headersFrom(environment, config.headersFromEnv, `${key}.headersFromEnv`);
  const { signingSecretEnv } = config;
  const secret =
    signingSecretEnv === undefined ? null : requireVariable(environment, signingSecretEnv, `${key}.signingSecretEnv`);
  const { name, description, inputSchema, idempotent, readOnly, timeoutMs } = config;
  return {
    name,
    description,
    inputSchema,
    idempotent,
    readOnly,
    timeoutMs: timeoutMs + TIMEOUT_MARGIN_MS,
    takesWrittenNumbers: true,
    async execute(input, context) {
      const body = JSON.stringify({ input, ...idsOf(context) });
      const signature = secret === null ? {} : signRequest(secret, context.callKey, Date.now(), body);
      const timeout = AbortSignal.timeout(timeoutMs);
      describeActiveSpan({ 'gen_ai.tool.type': 'extension', ...addressOf(config.url) });
      const request = {
        url: new URL(config.url),
        method: config.method,
        headers: { ...headers, ...FIXED_HEADERS, ...traceHeader(), 'idempotency-key': context.callKey, ...signature },
        body,
        maxResponseBytes: config.maxResponseBytes,
        signal: AbortSignal.any([context.signal, timeout]),
        takeRoom: context.takeRoom,
      };
      try {
        return toResult(await sendGuarded(request, policy));
      } catch (error) {
        throw error instanceof RequestFailed ? toToolError(error, timeout.aborted, config) : error;
      }
    },
  };
}

const FIXED_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/*;q=0.9, */*;q=0.1',
  'accept-encoding': 'identity',
  'user-agent': 'baton',
};

/** The span of the call, so that the endpoint's spans are below it. Empty without traces. */
function traceHeader(): { traceparent?: string } {
  const traceparent = currentTraceparent();
  return traceparent === null ? {} : { traceparent };
}

function idsOf({ callKey, tenantId, sessionId, runId, toolCallId }: ToolContext) {
  return { callKey, tenantId, sessionId, runId, toolCallId };
}

function toResult(response: GuardedResponse): unknown {
  const { status, contentType, body, isCut } = response;
  if (status >= 300 && status < 400) {
    throw new BatonError('transport', `The endpoint redirects (HTTP ${status}): redirects are not followed.`);
  }
  if (status < 200 || status >= 300) {
    const excerpt = textOf(response).slice(0, ERROR_BODY_CHARS);
    throw new BatonError(
      'transport',
      `The endpoint refused the call with HTTP ${status}${excerpt === '' ? '' : `: ${excerpt}`}`,
    );
  }
  const mediaType = bareMediaType(contentType);
  if (!isCut && mediaType !== null && SNIFFED_MEDIA_TYPES.has(mediaType)) return fileOf(mediaType, body);
  if (isCut) return `${textOf(response)}\n[the answer was cut after ${body.length} bytes]`;
  if (!JSON_TYPES.test(contentType)) return textOf(response);
  try {
    return parseExactly(body.toString());
  } catch {
    return body.toString();
  }
}

/** An image or a PDF is shown as a file to a model that takes it. */
function fileOf(mediaType: string, body: Buffer): unknown {
  const data = { type: 'data', data: body.toString('base64') };
  return { type: 'content', value: [{ type: 'file', mediaType, data }] };
}

function textOf({ contentType, body }: GuardedResponse): string {
  const isText = contentType === '' || TEXT_TYPES.test(contentType);
  return isText ? body.toString() : mediaNotice(contentType, body.length);
}

function toToolError({ message, sent, cause }: RequestFailed, timedOut: boolean, config: HttpToolConfig): BatonError {
  const what =
    cause instanceof NoRoom
      ? `answered, but ${message}`
      : timedOut
        ? `did not answer within ${config.timeoutMs} ms`
        : `gave no answer (${message})`;
  const outcome = !sent
    ? 'The call was not made.'
    : config.readOnly
      ? 'It may be called again.'
      : 'The outcome of the call is unknown: it may or may not have taken effect. Verify before you repeat it.';
  return new BatonError('transport', `The endpoint ${what}. ${outcome}`, { cause });
}
