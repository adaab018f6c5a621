-- With Kafka as the log, a tenant that moves is held before it is closed: the pipeline may write what
-- it had begun, and begins no more.

SET LOCAL search_path = lily;

ALTER TABLE departure DROP CONSTRAINT departure_phase_check;
ALTER TABLE departure ADD CONSTRAINT departure_phase_check
  CHECK (phase IN ('closing', 'held', 'closed', 'gone'));
