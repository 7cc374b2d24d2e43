import type { EventType, LiveEvent } from '../domain/run/events.ts';

/** When each durable event of a session is written, and what of its data needs words. */
export const EVENT_MEANINGS: Readonly<Record<EventType, string>> = {
  'run:queued': 'A message or a resume has created a run.',
  'run:started': 'A worker has claimed the run for the first time.',
  'run:requires-action': 'Calls of the run wait for a person or a client.',
  'run:answered':
    'A waiting call has got its answer. `open`: calls that the run still waits for. `args`: the call runs with these in place of those that the model gave.',
  'child:started': 'A call has begun or continued a session of another agent. `id`: the call.',
  'child:requires-action':
    'Calls of a session below this one wait for a person or a client. Only the root of the tree has this event. `open`: waiting calls of the whole tree.',
  'child:ended':
    'The run of a child has ended. `refused`: the child was not begun. Steps, tokens and cost include those of its own children.',
  'run:cancelling': 'A cancel of the run was accepted. A worker stops it.',
  'run:completed': 'The run has ended with an answer. `output`: left out where the run ends without a new answer.',
  'run:failed': 'The run has ended with an error.',
  'run:cancelled': 'The run has ended by a cancel. `stillRan`: tools that were running then.',
  'run:incomplete': 'The run was ended by a limit, or by an answer that does not fit its schema.',
  'step:started':
    'A worker asks the model. `finalAnswerFor`: the limit for which this step is the final answer. `waitedMs`: from the time when the work was due to its claim.',
  'step:retrying': 'The model call has failed and is repeated at `nextAttemptAt`.',
  'step:reset': 'The streamed text of the message is void.',
  'step:completed':
    'The answer of the step and the results of its calls are stored. `waitedMs` and `firstTokenMs`: left out by a worker that has recovered the step.',
  'llm:tool-call': 'The model has called a tool. `id` is unique, `callId` comes from the provider and may repeat.',
  'llm:tool-result':
    'A call has ended. `sanitized`: the output as text, with files by name. `truncated`: the middle of it is left out, and the transcript has the whole.',
  'llm:response':
    "The model's whole answer in a step. `timing`: the phases of the step one after another. `costUsd`: null where the price of the model is unknown.",
  'llm:file': 'The model has made a file. The event comes with the whole answer.',
  'llm:source': 'The answer has a source. The event comes with the whole answer.',
  'llm:error': 'A model call has failed. `recoverable`: it is repeated.',
  'llm:adapted':
    'The provider has refused the form of the request. The step, or the summary of a compaction (`round`), is asked for again with these changes.',
  'llm:switched':
    'The session goes on with another model. `agent`: the new agent, if that has changed. `reason`: why the run takes the next model of its agent.',
  'llm:unsupported-input': 'The model does not take files of these media types. It reads their names.',
  'tools:drifted':
    "A tool's definition on its MCP server differs from the session's. The event is sent once for each change.",
  'tools:pinned': "The session has taken the definitions that a server's tools have now.",
  'session:forked': 'The session was made as a fork. The event is its first.',
  'session:reverted': 'The messages after `seq`, up to `uptoSeq`, have left the transcript.',
  'session:unreverted': 'The messages after `seq`, up to `uptoSeq`, have come back.',
  'message:queued': 'A message waits for the active run. `position`: its place in the queue, from 1.',
  'message:dequeued': 'A run has taken up queued messages. `coalesced`: they became one message.',
  'message:changed': 'A queued message was changed.',
  'message:removed': 'Queued messages were removed.',
  'message:created':
    'A message has entered the transcript. `parts`: left out where they are large, and `contentRef` says where to read them. `isSummary`: the message replaces older ones in the view.',
  'context:compressed': 'A summary has replaced older messages in what the model is shown.',
  'context:pruned': 'Old outputs of tools were replaced by placeholders in what the model is shown.',
  'compaction:start': 'A worker summarizes older messages. New messages are accepted meanwhile.',
  'compaction:complete': 'The summary is stored. `fromSeq` and `uptoSeq`: the messages that it replaces.',
  'compaction:failed': 'The summary could not be made.',
  'prune:complete': 'A prune has ended.',
  'output:invalid':
    'An answer does not fit the schema of its run. `repairs`: how often the run has asked again, this time included.',
  'usage:updated': 'The provider has billed a model call.',
};

/** The previews of a stream. They are not stored. */
export const LIVE_MEANINGS: Readonly<Record<LiveEvent['type'], string>> = {
  'llm:thinking': 'The model was asked and has not answered yet.',
  'llm:tool-input':
    "A piece of a call's input as the model writes it. `offset`: characters of the input before this piece. Pieces may be missing, and `llm:tool-call` has the whole.",
  'llm:chunk':
    'A piece of streamed text. `offset`: characters of the message before this piece, text and reasoning together. With a higher `epoch` the message begins anew.',
};
