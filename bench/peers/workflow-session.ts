// The workflows and steps of the peer `workflow`. Its compiler finds them by their directives: steps run in this
// process, workflows in a sandbox without Node's modules, where they are replayed after every step.
import type { ModelMessage } from 'ai';
import { getWritable } from 'workflow';
import { callTools, hasCalls, runModelStep } from '../chain/step.ts';
import { askModelDurably } from './durable-text.ts';

type Answer = Readonly<{ response: ModelMessage[]; goesOn: boolean }>;

export async function session(first: ModelMessage, steps: number): Promise<number> {
  'use workflow';
  const history = [first];
  for (let no = 1; no <= steps; no++) history.push(...(await runStep(history)));
  return history.length;
}

/** A step for each model call and each tool call. */
export async function sessionInParts(first: ModelMessage, steps: number): Promise<number> {
  'use workflow';
  const history = [first];
  for (let no = 1; no <= steps; no++) {
    const { response, goesOn } = await runModel(history);
    history.push(...response);
    if (goesOn) history.push(...(await runTools(response)));
  }
  return history.length;
}

async function runStep(history: readonly ModelMessage[]): Promise<ModelMessage[]> {
  'use step';
  return runModelStep(history);
}

/** Writes the text to the run's stream, which a reader resumes by its index. The stream stores a text within 10 ms. */
async function runModel(history: readonly ModelMessage[]): Promise<Answer> {
  'use step';
  const writer = getWritable<string>().getWriter();
  try {
    const response = await askModelDurably(history, (text) => writer.write(text));
    return { response, goesOn: hasCalls(response) };
  } finally {
    writer.releaseLock();
  }
}

async function runTools(response: readonly ModelMessage[]): Promise<ModelMessage[]> {
  'use step';
  return callTools(response);
}
