-- Asks the worker that has claimed a run to stop it, and writes the entry of the audit log if there is one. Null:
-- no worker has claimed the run, and nothing is written.
--
-- Called by cancelClaimed (src/store/changes/cancels.ts).
--
-- Locks: the first look takes none, so that a cancel of an unclaimed run waits for nothing here. The session is
-- locked by a statement of its own; baton_mark_cancelling then locks the run and reads its state again.
create or replace function baton_cancel_claimed(p_tenant text, p_run uuid, p_audit jsonb) returns jsonb
language plpgsql as $$
declare
  v_session uuid;
  v_is_claimed boolean;
  v_last bigint;
begin
  select session_id, status = 'running' and claim_id is not null into v_session, v_is_claimed
    from runs where id = p_run and tenant_id = p_tenant;
  if v_is_claimed is distinct from true then return null; end if;
  perform 1 from sessions where id = v_session for no key update;
  v_last := baton_mark_cancelling(v_session, p_run, true);
  if v_last is null then return null; end if;
  insert into audit_log (tenant_id, key_id, action, target)
    select a."tenantId", a."keyId", a.action, a.target
    from jsonb_to_record(p_audit) as a ("tenantId" text, "keyId" uuid, action text, target text)
    where p_audit is not null;
  return jsonb_build_object('sessionId', v_session, 'eventSeq', v_last);
end $$;
