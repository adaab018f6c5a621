-- Assets are shown anew when exclusive groups change; rules may compute what travels.

SET LOCAL search_path = lily;

-- Tags whose groups have changed, until every asset with one of them has been folded again.
ALTER TABLE tag_settings ADD COLUMN refold text[], ADD COLUMN refold_cause text NOT NULL DEFAULT '';
GRANT UPDATE (refold) ON tag_settings TO lily_system;

-- A rule with a plug-in carries what that makes of the root, instead of the root's own value.
ALTER TABLE propagation_rule
  ADD COLUMN plugin text NOT NULL DEFAULT '', ADD COLUMN options jsonb NOT NULL DEFAULT '{}';
