import { Dialog as Base } from '@base-ui/react/dialog';
import { X } from 'lucide-react';
import { type FormEvent, type KeyboardEvent, type ReactNode, useRef, useState } from 'react';
import { failureWords } from '../format.ts';

type DialogProps = Readonly<{
  isOpen: boolean;
  close: () => void;
  title: string;
  children: ReactNode;
  /** A class of Tailwind, such as `max-w-md`. */
  width?: string;
  /** A click beside the dialog does not close it, so that its text is not lost. */
  isKept?: boolean;
}>;

/**
 * A window above the page. Escape and a click beside it close it, Ctrl-Enter submits its form. Its first field has the
 * focus; without one the window itself has it, so that no key that was meant for the page presses a button.
 */
export function Dialog(props: DialogProps): ReactNode {
  const { isOpen, close, title, children, width = 'max-w-md', isKept = false } = props;
  const popup = useRef<HTMLDivElement>(null);
  return (
    <Base.Root open={isOpen} onOpenChange={(open) => !open && close()} disablePointerDismissal={isKept}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-20 bg-black/30" />
        <Base.Popup
          ref={popup}
          initialFocus={() => firstField(popup.current) ?? popup.current}
          onKeyDown={submitByKeys}
          className={`floating fixed top-[12vh] left-1/2 z-30 flex max-h-[76vh] w-[calc(100vw-24px)] -translate-x-1/2 flex-col overflow-hidden outline-none ${width}`}
        >
          <div className="flex items-center justify-between gap-2 border-b border-line px-4 py-2">
            <Base.Title className="text-base">{title}</Base.Title>
            <Base.Close className="icon-button" aria-label="Close">
              <X size={14} />
            </Base.Close>
          </div>
          <div className="min-h-0 overflow-auto p-4">{children}</div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

const FIELDS = 'select, textarea, input:not([type="hidden"])';

/** The first field of the window, with the caret behind its text. */
function firstField(popup: HTMLElement | null): HTMLElement | null {
  const field = popup?.querySelector<HTMLElement>(FIELDS) ?? null;
  const isText = field instanceof HTMLTextAreaElement || (field instanceof HTMLInputElement && field.type === 'text');
  if (isText) field.setSelectionRange(field.value.length, field.value.length);
  return field;
}

function submitByKeys(event: KeyboardEvent<HTMLElement>): void {
  if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  event.currentTarget.querySelector('form')?.requestSubmit();
}

type ActionProps = Readonly<{
  isOpen: boolean;
  close: () => void;
  title: string;
  /** The word on the button: the action itself. */
  act: string;
  isDangerous?: boolean;
  /** A rejection is shown in the dialog, which stays open. */
  run: () => Promise<unknown>;
  children: ReactNode;
}>;

/** Asks for a confirmation before an action, or for the data that the action needs. */
export function ActionDialog({ isOpen, close, title, act, isDangerous, run, children }: ActionProps): ReactNode {
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await run();
      close();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog isOpen={isOpen} close={close} title={title}>
      <form onSubmit={(event) => void submit(event)} className="flex flex-col gap-3">
        {children}
        {error !== null && (
          <p role="alert" className="text-failed wrap-anywhere">
            {failureWords(error)}
          </p>
        )}
        <div className="sticky -bottom-4 -mx-4 -mb-4 flex justify-end gap-2 border-t border-line bg-raised px-4 py-3">
          <button type="button" className="button" onClick={close}>
            Keep as it is
          </button>
          <button type="submit" className={`button ${isDangerous === true ? 'danger' : 'main'}`} disabled={isBusy}>
            {act} <kbd className="kbd">Ctrl ↵</kbd>
          </button>
        </div>
      </form>
    </Dialog>
  );
}
