import type { RunChild } from '../../client/client.ts';
import type { Piece } from '../terminal/progress.ts';
import { count, MAX_ERROR_CHARS, oneLine, seconds } from '../terminal/words.ts';
import type { TalkOutcome } from './conversation.ts';
import type { DemoService } from './service.ts';

/** Default URL of `npm start`. */
const DEFAULT_URL = 'http://127.0.0.1:4400';

export function showSummary(
  { ended, tally, injected, team, durationMs, sessionId }: TalkOutcome,
  { backend, keepsSessions }: Pick<DemoService, 'backend' | 'keepsSessions'>,
): Piece[] {
  const completed = ended.status === 'completed';
  const { steps, toolCalls, events, inputTokens, cacheReadTokens, outputTokens } = tally;
  const why = completed || ended.reason === undefined ? '' : ` (${oneLine(ended.reason, MAX_ERROR_CHARS)})`;
  const title = `${completed ? '✓' : '✗'} ${ended.status}${why} after ${seconds(durationMs)}`;
  const work = [
    count(steps, 'step'),
    count(toolCalls, 'tool call'),
    ...(team === null ? [`${count(injected, 'message')} taken up on the way`] : []),
  ];
  const tokens = `${count(inputTokens, 'token')} in (${count(cacheReadTokens, 'token')} of them cached)`;
  const facts = [
    ['answer', completed ? 'the text of the last step, above' : 'none'],
    ['work', work.join(', ')],
    ['usage', `${tokens}, ${count(outputTokens, 'token')} out`],
    ['log', `${count(events, 'durable event')}, backend ${backend}`],
    ['session', keepsSessions ? `npm start, then ${DEFAULT_URL}/v1/sessions/${sessionId}/messages` : 'not kept'],
  ] as const;
  return [
    { kind: 'heading', text: title },
    ...facts.map(([name, fact]): Piece => ({ kind: 'line', tone: 'plain', text: `${name.padEnd(10)} ${fact}` })),
    ...showTeam(team ?? []),
  ];
}

/** The tree of the agents, with how each has ended and where its log is. */
function showTeam(team: readonly RunChild[]): Piece[] {
  if (team.length === 0) return [];
  const lines = team.map(({ agent, status, steps, tokens, sessionId }, index): Piece => {
    const branch = index === team.length - 1 ? '└─' : '├─';
    const used = steps === null || tokens === null ? '' : `, ${count(steps, 'step')}, ${count(tokens, 'token')}`;
    const tone = status === 'completed' ? 'plain' : 'bad';
    return {
      kind: 'line',
      tone,
      text: `${branch} ${agent} ${index + 1} ${status}${used}  ${sessionId ?? ''}`.trimEnd(),
    };
  });
  return [
    { kind: 'line', tone: 'plain', text: `team       ${count(team.length, 'session')} below this one:` },
    ...lines,
  ];
}

/** The last line of `--json`. */
export function toJsonLine(outcome: TalkOutcome, backend: DemoService['backend']): string {
  const { ended, tally, injected, team, durationMs } = outcome;
  const { steps, toolCalls, events } = tally;
  const children = team === null ? {} : { children: team.length };
  return JSON.stringify({ status: ended.status, steps, toolCalls, injected, events, durationMs, backend, ...children });
}
