import type { Message } from '../client/client.ts';
import { parseId } from '../domain/ids.ts';
import { type Clean, withoutSecrets } from '../domain/model/secret-fields.ts';
import { hashTools } from '../model/request-hash.ts';
import { type KeptRequest, readKeptRequests } from '../store/transcript/step-request.ts';
import { type Case, type CaseStep, stepsOf } from './case-file.ts';
import type { CaseService } from './case-service.ts';
import { createRequestComparison, requestsOf } from './compare-request.ts';
import { type Difference, differenceOf, valueText } from './differences.ts';
import { type Played, playCase } from './play-case.ts';
import { createShownReader, type Shown } from './shown-request.ts';

export type CaseResult = Readonly<{
  name: string;
  steps: number;
  calls: number;
  differences: readonly Difference[];
  durationMs: number;
}>;

/** Plays a case. Compares the request, the calls and their results in each step with the case, and then the end. */
export async function testCase(service: CaseService, recorded: Case, clean: Clean): Promise<CaseResult> {
  const startedAtMs = performance.now();
  const played = await playCase(service, recorded);
  const steps = stepsOf(recorded);
  const differences = [
    ...(await compareSteps(service, recorded, played, clean)),
    ...played.player.differences,
    ...compareEnd(recorded, played),
  ];
  await service.client.sessions.cancel(played.sessionId);
  const calls = steps.reduce((sum, { parts }) => sum + parts.filter(({ type }) => type === 'tool').length, 0);
  const durationMs = performance.now() - startedAtMs;
  return { name: recorded.name, steps: steps.length, calls, differences, durationMs };
}

async function compareSteps(
  { client, deps }: CaseService,
  recorded: Case,
  { answers, sessionId }: Played,
  clean: Clean,
): Promise<Difference[]> {
  const steps = stepsOf(recorded);
  const requests = requestsOf(recorded, steps);
  const kept = await readKeptRequests(deps.db, parseId('session', sessionId) ?? sessionId);
  const compareRequest = createRequestComparison();
  const readShown = createShownReader(client, clean);
  const differences: Difference[] = [];
  for (const [index, step] of steps.entries()) {
    const answer = answers[index];
    if (answer === undefined) {
      differences.push({
        step: index + 1,
        what: 'step',
        recorded: `step ${step.step} of run ${step.run}`,
        now: 'none',
      });
      return differences;
    }
    const request = requests[index];
    const hashes = kept.get(parseId('message', answer.id) ?? '');
    const isSame = request != null && hashes !== undefined && isProvenSame(request, hashes);
    if (request != null && !isSame && answer.runId !== null && answer.step !== null) {
      const now = await readShown(answer.runId, answer.step);
      const isOtherResult = differences.some(({ what }) => what.startsWith('result of '));
      const found = compareRequest(index + 1, request, now);
      // A different result is already reported at its call, so messages of tools are not reported again.
      differences.push(...found.filter(({ what }) => !isOtherResult || !what.endsWith('(tool)')));
    }
    differences.push(...compareCalls(index + 1, step, answer, clean));
  }
  return differences;
}

/** Equal hashes save reading the messages, of which a late step has hundreds. */
const isProvenSame = (recorded: Shown, { sha256, toolsSha256 }: KeptRequest): boolean =>
  recorded.sha256 === sha256 && hashTools(recorded.tools) === toolsSha256;

function compareCalls(no: number, step: CaseStep, answer: Message, clean: Clean): Difference[] {
  const recorded = step.parts.filter((part) => part.type === 'tool');
  const now = answer.parts.filter((part) => part.type === 'tool');
  return recorded.flatMap((call, index) => {
    const current = now[index];
    const name = call.toolName;
    if (current === undefined || current.toolName !== name) {
      return [{ step: no, what: `call of ${name}`, recorded: name, now: current?.toolName ?? 'no call' }];
    }
    return [
      ...compare(no, `arguments of ${name}`, valueText(call.input), valueText(withoutSecrets(current.input, clean))),
      ...compare(no, `result of ${name}`, resultText(call), resultText(withoutSecrets(current, clean))),
    ];
  });
}

const compare = (step: number, what: string, recorded: string, now: string): Difference[] =>
  recorded === now ? [] : [differenceOf(step, what, recorded, now)];

type Outcome = Readonly<{
  state: string;
  output?: Readonly<{ type: string; value?: unknown; reason?: string | undefined }> | undefined;
}>;

/** The outcome of a call. A file is compared by its type and name, because its bytes are stored elsewhere. */
function resultText({ state, output }: Outcome): string {
  if (output === undefined) return state;
  if (output.type === 'execution-denied') return `denied: ${output.reason ?? ''}`;
  const isContent = output.type === 'content' && Array.isArray(output.value);
  const value = isContent ? output.value.map((item) => ({ ...item, url: '', sizeBytes: 0 })) : output.value;
  return `${state === 'completed' ? '' : `${state}: `}${valueText(value)}`;
}

function compareEnd({ end: was }: Case, { end }: Played): Difference[] {
  const now = end === null ? 'no run' : endText({ ...end, error: end.error?.code ?? null });
  return compare(0, 'end', endText(was), now);
}

const endText = ({ status, reason, error }: Case['end']): string =>
  [status, reason, error].filter((word) => word !== null).join(', ');
