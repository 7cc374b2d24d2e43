#!/usr/bin/env bash
# AI SDK 5: after a broken connection `resumeStream()` adds the replayed answer to what the page shows of it already.
#
# Guess: the stream of `reconnectToStream` begins with `start` and the id of the message, so it replaces the message, as
# it does after a reload.
# Seen: a connection that breaks (a TypeError with "fetch" or "network" in it) makes the chat keep the state of the
# answer, and version 5 goes on with that state: the text stands there twice. Versions 6 and 7 begin anew, because their
# DefaultChatTransport has `resumeStreamIsReplay: true`. A server cannot help: its chunks have nothing that resets.
# Versions: ai 5.0.277, 6.0.326, 7.0.173, Node 24. 2026-11-28.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund ai5@npm:ai@5.0.277 ai6@npm:ai@6.0.326 ai7@npm:ai@7.0.173 zod@4.6.7 >/dev/null 2>&1
cat >try.mjs <<'JS'
const chunks = (text) => [
  { type: 'start', messageId: 'answer' },
  { type: 'start-step' },
  { type: 'text-start', id: 't' },
  ...text.map((delta) => ({ type: 'text-delta', id: 't', delta })),
];
const END = [{ type: 'text-end', id: 't' }, { type: 'finish-step' }, { type: 'finish' }];

/** A stream of these chunks. With `breaks` its connection is lost after the last one has been read. */
function answer(of, breaks) {
  const left = of.map((chunk) => new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\n\n`));
  const body = new ReadableStream({
    pull(controller) {
      const next = left.shift();
      if (next !== undefined) controller.enqueue(next);
      else if (breaks) setTimeout(() => controller.error(new TypeError('network error')), 50);
      else controller.close();
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
}

for (const version of [5, 6, 7]) {
  const { AbstractChat, DefaultChatTransport } = await import(`ai${version}`);
  const state = {
    status: 'ready',
    messages: [],
    pushMessage: (message) => void state.messages.push(message),
    popMessage: () => void state.messages.pop(),
    replaceMessage: (index, message) => void state.messages.splice(index, 1, message),
    snapshot: (value) => structuredClone(value),
  };
  class Chat extends AbstractChat {}
  const fetch = async (_, { method }) =>
    method === 'POST' ? answer(chunks(['Half ']), true) : answer([...chunks(['Half ', 'and half.']), ...END], false);
  const chat = new Chat({ id: 'c', state, transport: new DefaultChatTransport({ fetch }) });
  await chat.sendMessage({ text: 'Hello' });
  await chat.resumeStream();
  const texts = chat.messages.at(-1).parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  console.log(version, JSON.stringify(texts));
}
JS
node try.mjs | tee seen
cat >expected <<'EOF'
5 ["Half ","Half and half."]
6 ["Half and half."]
7 ["Half and half."]
EOF
diff expected seen && echo 'as described'
