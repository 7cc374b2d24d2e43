import { isDeepStrictEqual } from 'node:util';
import { type RecordedStep, type Recording, stepsOf } from '../simulator/recording.ts';
import { parseCallId } from '../src/domain/ids.ts';
import type { ServerTool, ToolContext } from '../src/tools/tool.ts';
import { expectedParts } from './expected-parts.ts';
import { compareValues, type Mismatch } from './mismatch.ts';

type RecordedCall = RecordedStep['toolCalls'][number];

/**
 * One tool for every name in the recording, which answers a call with the recorded output or error. Call ids repeat, so
 * a call is identified by its step and its index in that step's message; any other call is reported and fails.
 */
export function createRecordedTools(recording: Recording, report: (mismatch: Mismatch) => void): ServerTool[] {
  const steps = stepsOf(recording).filter((step) => step.toolCalls.length > 0);
  const callsOf = new Map<string, ReadonlyMap<number, RecordedCall>>();
  let bound = 0;
  const place = (context: ToolContext): RecordedCall | undefined => {
    const { messageId = '', index = -1 } = parseCallId(context.callKey) ?? {};
    let calls = callsOf.get(messageId);
    if (calls === undefined) {
      calls = callsByPartIndex(steps[bound]);
      bound += 1;
      callsOf.set(messageId, calls);
    }
    return calls.get(index);
  };
  const execute = (name: string) => async (input: unknown, context: ToolContext) => {
    const call = place(context);
    const asked = { id: context.toolCallId, name, input };
    const recorded = call === undefined ? undefined : { id: call.id, name: call.name, input: call.input };
    if (call === undefined || !isDeepStrictEqual(asked, recorded)) {
      for (const mismatch of compareValues(`call of ${name}`, recorded, asked)) report(mismatch);
      throw new Error('This call is not in the recording.');
    }
    if (call.isError === true) throw new Error(call.output);
    return call.output;
  };
  const names = new Set(steps.flatMap((step) => step.toolCalls.map((call) => call.name)));
  return [...names].map((name) => ({
    name,
    description: `Answers as recorded for ${name}.`,
    inputSchema: { type: 'object', properties: {}, additionalProperties: true },
    execute: execute(name),
    readOnly: false,
  }));
}

function callsByPartIndex(step: RecordedStep | undefined): ReadonlyMap<number, RecordedCall> {
  if (step === undefined) return new Map();
  const first = expectedParts(step).findIndex((part) => part.type === 'tool');
  return new Map(step.toolCalls.map((call, index) => [first + index, call]));
}
