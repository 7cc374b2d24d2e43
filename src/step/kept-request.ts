import { setImmediate as nextTurn } from 'node:timers/promises';
import { describeTools } from '../claims/context-meter.ts';
import type { MediaContents } from '../domain/model/model-files.ts';
import type { ModelMessage } from '../domain/model/model-message.ts';
import { hashShown, hashTools } from '../model/request-hash.ts';
import type { KeptRequest } from '../store/transcript/step-request.ts';
import type { Answering } from './answering.ts';

/** The hashes by which the request of a step is proved later. They are made while the model reads the request. */
export async function keepRequest(
  { scope, context: { meter, tools, output } }: Answering,
  messages: readonly ModelMessage[],
  media: MediaContents,
): Promise<KeptRequest> {
  const { finalAnswerFor } = scope;
  await nextTurn();
  return {
    sha256: hashShown(meter.instructions, messages, media),
    toolsSha256: hashTools(describeTools(tools)),
    ...(finalAnswerFor !== null && { finalAnswerFor }),
    ...(output !== null && scope.output !== null && { outputState: scope.output.state }),
  };
}
