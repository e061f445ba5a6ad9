-- The extension can be installed, and its library is the one it wants.
CREATE EXTENSION taskq;
SELECT taskq_version();
SELECT count(*) FROM taskq_check();
