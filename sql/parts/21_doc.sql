/*
 * 21_doc: documents that tasks share.
 *
 * change/document.c describes them.
 */
CREATE TABLE taskq.doc (
    namespace pg_catalog.text NOT NULL COLLATE "C",
    key pg_catalog.text NOT NULL COLLATE "C",
    secondary_key pg_catalog.text NOT NULL COLLATE "C",
    doc_id bigint NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    content jsonb,
    worker pg_catalog.text,
    lease_until timestamp with time zone,
    CONSTRAINT doc_pkey PRIMARY KEY (doc_id),
    CONSTRAINT doc_name_key UNIQUE (namespace, key, secondary_key),
    CONSTRAINT doc_version_check CHECK (version OPERATOR(pg_catalog.>) 0),
    CONSTRAINT doc_lease_check CHECK ((worker IS NULL) OPERATOR(pg_catalog.=) (lease_until IS NULL))
);
COMMENT ON TABLE taskq.doc IS 'Documents that are changed together with tasks';
COMMENT ON COLUMN taskq.doc.namespace IS 'Queue to which it belongs, or a name that no queue has';
COMMENT ON COLUMN taskq.doc.key IS 'Key; documents of one key are claimed together';
COMMENT ON COLUMN taskq.doc.secondary_key IS 'Name of the document among those of its key; may be empty';
COMMENT ON COLUMN taskq.doc.doc_id IS 'Number of the document, drawn from the sequence of task ids';
COMMENT ON COLUMN taskq.doc.version IS 'Version of the document; every change raises it';
COMMENT ON COLUMN taskq.doc.content IS 'Contents';
COMMENT ON COLUMN taskq.doc.worker IS 'Worker that holds the document, or held it last';
COMMENT ON COLUMN taskq.doc.lease_until IS 'End of the claim';
COMMENT ON CONSTRAINT doc_pkey ON taskq.doc IS 'One row for each document';
COMMENT ON CONSTRAINT doc_name_key ON taskq.doc IS 'Looked up by name; unique';
COMMENT ON CONSTRAINT doc_version_check ON taskq.doc IS 'Versions begin with 1';
COMMENT ON CONSTRAINT doc_lease_check ON taskq.doc IS 'A claim has an end';
