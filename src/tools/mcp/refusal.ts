import { ProtocolError, SdkError, SdkHttpError, UnsupportedProtocolVersionError } from '@modelcontextprotocol/client';
import { isSentByServer } from './incoming.ts';

const MAX_BODY_CHARS = 300;

/** An answer over HTTP with a status of an error. `challenge`: what the server asks for by `WWW-Authenticate`. */
export class HttpRefusal extends Error {
  readonly status: number;
  readonly contentType: string;
  readonly challenge: string | null;
  readonly body: string;

  constructor(response: Response, body: string) {
    const contentType = response.headers.get('content-type') ?? '';
    super(`HTTP ${response.status}${wordsOf(contentType, body)}`);
    this.status = response.status;
    this.contentType = contentType;
    this.challenge = response.headers.get('www-authenticate');
    this.body = body;
  }
}

/** What a body says, as the end of a sentence. A web page says nothing that a log should hold. */
function wordsOf(contentType: string, body: string): string {
  if (isPage(contentType, body)) return ' with a web page';
  const excerpt = body.replaceAll(/\s+/g, ' ').trim().slice(0, MAX_BODY_CHARS);
  return excerpt === '' ? '' : `: ${excerpt}`;
}

const isPage = (contentType: string, body: string): boolean =>
  /html/i.test(contentType) || /^\s*<(?:!doctype|html)/i.test(body);

/** Why a server cannot be used, in a sentence that says what to look at. Pure. */
export function unavailableBecause(server: string, error: unknown): string {
  const name = `The MCP server ${server}`;
  if (error instanceof HttpRefusal) return `${name} ${ofStatus(error)}`;
  if (error instanceof UnsupportedProtocolVersionError) {
    const revisions = error.supported.join(', ').slice(0, MAX_BODY_CHARS);
    return `${name} speaks the revisions ${revisions} of the protocol, which Baton does not speak.`;
  }
  if (error instanceof ProtocolError) return `${name} ${ofProtocolError(error)}`;
  if (error instanceof SdkError && !(error instanceof SdkHttpError)) return `${name} gave no answer: ${error.message}.`;
  const message = error instanceof Error ? error.message : String(error);
  const [, revision] = /protocol version is not supported: (.*)$/.exec(message) ?? [];
  if (revision !== undefined) {
    return `${name} speaks the revision ${revision.slice(0, MAX_BODY_CHARS)} of the protocol, which Baton does not speak.`;
  }
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
  const isFetch = message === 'fetch failed' || message === 'terminated';
  return `${name} cannot be reached${isFetch ? code : `: ${message}`}.`;
}

function ofStatus({ status, message, challenge, contentType, body }: HttpRefusal): string {
  const reason = `answered ${message}`;
  if (status === 401 || status === 403) {
    const asks = challenge === null ? '' : `, and asks for: ${challenge.slice(0, MAX_BODY_CHARS)}`;
    return `wants a login: it ${reason}${asks}. Headers with credentials are set by headersFromEnv.`;
  }
  if (status === 404 || status === 405 || status === 406 || isPage(contentType, body)) {
    return (
      `${reason}: it speaks no streamable HTTP at this address. ` +
      'It may be the address of the older HTTP+SSE transport (often …/sse), where many servers offer …/mcp beside it.'
    );
  }
  return `${reason}.`;
}

function ofProtocolError({ code, message, data }: ProtocolError): string {
  const excerpt = message.slice(0, MAX_BODY_CHARS);
  if (isSentByServer(data)) return `answered with the error ${code}: ${excerpt}${wantedRevisions(data)}`;
  return `gave no answer: ${excerpt}.`;
}

/** The revisions that a server names in its refusal: https://modelcontextprotocol.io/specification, lifecycle. */
function wantedRevisions(data: unknown): string {
  const supported = /"supported":\[([^\]]*)\]/.exec(JSON.stringify(data) ?? '')?.[1];
  return supported === undefined ? '' : ` It speaks the revisions ${supported.slice(0, MAX_BODY_CHARS)}.`;
}
