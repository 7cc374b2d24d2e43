import { readAgent } from '../../agents/agent.ts';
import type { CompletionRequest } from '../../api/completion-request.ts';
import { contentField, toParts } from '../../api/content-field.ts';
import { BatonError } from '../../domain/errors.ts';
import { type ModelSettings, settingProblems } from '../../domain/model/model-settings.ts';
import { toText } from '../../domain/storable-json.ts';
import type { ConversationMessage } from '../../domain/transcript/conversation.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import type { OutputAnswer } from '../../domain/transcript/required-action.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import { refuseInvalid } from '../../http/bodies/validation.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { agentFor, partsOf, SETTING_PARAMETERS, settingsOf } from './completion-request.ts';

/** @throws ProblemError `invalid_request` that names the field at `path` */
export function refuse(path: string, message: string): never {
  throw new ProblemError('invalid_request', `${path}: ${message}`, { errors: [{ path, message }] });
}

/** The user's texts and files in these messages, as one message. Null: none. @throws ProblemError `invalid_request` */
export function contentOf(messages: readonly ConversationMessage[]): readonly UserPart[] | null {
  const parts = messages.flatMap((message) => (message.role === 'user' ? partsOf(message) : []));
  if (parts.length === 0) return null;
  const untyped = parts.map((part) =>
    part.type === 'file' && part.mediaType === '' ? { type: part.type, url: part.url, filename: part.filename } : part,
  );
  const parsed = contentField.safeParse(untyped);
  refuseInvalid({ target: 'json', ...parsed });
  return toParts(parsed.data ?? []);
}

/** The results in new messages, by the ids of their calls. Of several for one call the last one counts. */
export function resultsOf(messages: readonly ConversationMessage[]): ReadonlyMap<string, OutputAnswer> {
  return new Map(
    messages.flatMap((message): [string, OutputAnswer][] => {
      if (message.role !== 'tool') return [];
      const { callId, text, parts } = message;
      if (parts !== undefined) return [[callId, { kind: 'content', content: [...parts] }]];
      return [[callId, { kind: 'output', output: toText(text) }]];
    }),
  );
}

/**
 * Adds the instructions, tools and settings of the request to the agent of its session.
 * @throws ProblemError `invalid_request` (the name of a tool is taken, or the model has no such setting)
 */
export async function adaptedAgent(
  { models, toolsOf }: Pick<HttpDeps, 'models' | 'toolsOf'>,
  body: CompletionRequest,
  base: unknown,
): Promise<unknown> {
  const adapted = agentFor(body, base);
  refuseIgnored(models, adapted.model, settingsOf(body));
  if ((body.tools ?? []).length === 0) return adapted;
  // An error in the agent's own tools is no fault of the request.
  await toolsOf(readAgent(base));
  try {
    await toolsOf(adapted);
  } catch (error) {
    if (!(error instanceof BatonError) || error.code !== 'config_invalid') throw error;
    refuse('tools', error.message.replace(/^\S+: /, ''));
  }
  return adapted;
}

/**
 * Refuses settings that the model would ignore, so that the client does not take them for applied.
 * @throws ProblemError `invalid_request` that names the parameter
 */
function refuseIgnored(models: HttpDeps['models'], model: string, settings: ModelSettings): void {
  if (Object.keys(settings).length === 0) return;
  const [problem] = settingProblems(models(model).protocol, model, settings);
  if (problem !== undefined) refuse(SETTING_PARAMETERS[problem.name] ?? problem.name, problem.message);
}
