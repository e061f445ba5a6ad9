/*
 * 24_function_right: which privileges require EXECUTE on which function.
 *
 * taskq_grant and taskq_revoke read this table; 90_grants fills it.
 */
CREATE TABLE taskq.function_right (
    function pg_catalog.name NOT NULL,
    rights integer NOT NULL,
    CONSTRAINT function_right_pkey PRIMARY KEY (function)
);
COMMENT ON TABLE taskq.function_right IS 'Privileges whose grant includes EXECUTE on a function';
COMMENT ON COLUMN taskq.function_right.function IS 'Name of the function';
COMMENT ON COLUMN taskq.function_right.rights IS 'Sum of 1 submit, 2 work, 4 read, 8 manage, 16 observe; one of these privileges is enough';
COMMENT ON CONSTRAINT function_right_pkey ON taskq.function_right IS 'One row for each function';
