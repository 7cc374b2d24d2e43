import { type SyntheticEvent, useState } from 'react';
import { type Attachment, upload } from './attachments.ts';
import { FileView } from './file-view.tsx';

type Props = Readonly<{
  isBusy: boolean;
  onSend: (text: string, files: Attachment[]) => void;
  onStop: () => void;
}>;

/** The input for text and files. While the agent works it says that the message will be queued. */
export function Composer({ isBusy, onSend, onStop }: Props) {
  const [text, setText] = useState('');
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const [uploading, setUploading] = useState(0);
  const [failure, setFailure] = useState<string | null>(null);
  const isSendable = uploading === 0 && (text.trim() !== '' || files.length > 0);

  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    if (!isSendable) return;
    onSend(text, [...files]);
    setText('');
    setFiles([]);
  };
  const attach = async (chosen: readonly File[]): Promise<void> => {
    setFailure(null);
    setUploading((count) => count + chosen.length);
    for (const file of chosen) {
      try {
        const attached = await upload(file);
        setFiles((known) => [...known, attached]);
      } catch (error) {
        setFailure(error instanceof Error ? error.message : String(error));
      }
      setUploading((count) => count - 1);
    }
  };
  return (
    <form onSubmit={submit}>
      <AttachmentList files={files} onRemove={(file) => setFiles(files.filter((each) => each !== file))} />
      {failure !== null && <p className="failure">{failure}</p>}
      <label className="attach">
        {uploading > 0 ? '…' : 'Attach'}
        <input
          type="file"
          multiple
          aria-label="Attach files"
          onChange={(event) => {
            void attach([...(event.target.files ?? [])]);
            // Lets a person select the same file again.
            event.target.value = '';
          }}
        />
      </label>
      <textarea
        name="message"
        rows={Math.min(10, text.split('\n').length)}
        aria-label="Message"
        placeholder={isBusy ? 'Your message will be queued' : 'Your message'}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
        }}
      />
      <button type="submit" disabled={!isSendable}>
        {isBusy ? 'Queue' : 'Send'}
      </button>
      {isBusy && (
        <button type="button" className="stop" onClick={onStop}>
          Stop
        </button>
      )}
    </form>
  );
}

type ListProps = Readonly<{ files: readonly Attachment[]; onRemove: (file: Attachment) => void }>;

function AttachmentList({ files, onRemove }: ListProps) {
  if (files.length === 0) return null;
  return (
    <ul className="attachments">
      {files.map((file, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the same file may be attached twice.
        <li key={index}>
          <FileView file={file} />
          <button type="button" aria-label={`Remove ${file.filename ?? 'the file'}`} onClick={() => onRemove(file)}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}
