-- Rows of the recorder of schema 0015, in SQL that SQLite and PostgreSQL take.
INSERT INTO jobs (cluster, uid, version, namespace, name, queue, submitted_by, owner_kind, owner_name, created) VALUES ('before', 'j', 5, 'a', 'j', 'red', 'ann', 'JobFlow', 'f', 1728000000);
INSERT INTO pods (cluster, uid, version, job, namespace, name, queue, requests, phase, created, bound) VALUES ('before', 'runs', 1, 'j', 'a', 'runs', 'q', '{"cpu":1000}', 'Running', 1728000000, 1728000000);
INSERT INTO pods (cluster, uid, version, namespace, name, queue, requests, phase, created, bound, finished, released_high) VALUES ('before', 'over', 1, 'a', 'over', 'q', '{"cpu":1000}', 'Succeeded', 1728000000, 1728000000, 1728003600, 1728003600);
INSERT INTO pod_use (cluster, pod, resource, since, version, source, samples, mean, p95, largest) VALUES ('before', 'over', 'cpu', 1728000000, 9, 'metrics-server', 9, 500, 600, 700);
INSERT INTO usage_hours (cluster, hour, queue, namespace, submitted_by, flow, resource, asked, doubtful, measured, used) VALUES ('before', 1728000000, 'q', 'a', 'unknown', '', 'cpu', 3600000, 0, 3600000, 1800000);
INSERT INTO usage_hours (cluster, hour, queue, namespace, submitted_by, flow, resource, asked, doubtful, measured, used) VALUES ('before', 1728000000, 'red', 'a', 'ann', 'f', 'cpu', 3600000, 0, 0, 0);
INSERT INTO usage_hours (cluster, hour, queue, namespace, submitted_by, flow, resource, asked, doubtful, measured, used) VALUES ('before', 1728003600, 'red', 'a', 'ann', 'f', 'cpu', 3600000, 0, 0, 0);
INSERT INTO usage_days (cluster, day, queue, namespace, submitted_by, flow, resource, asked, doubtful, measured, used) VALUES ('before', 1728000000, 'q', 'a', 'unknown', '', 'cpu', 3600000, 0, 3600000, 1800000);
INSERT INTO usage_days (cluster, day, queue, namespace, submitted_by, flow, resource, asked, doubtful, measured, used) VALUES ('before', 1728000000, 'red', 'a', 'ann', 'f', 'cpu', 7200000, 0, 0, 0);
INSERT INTO cursors (cluster, kind, resource_version, at, epoch) VALUES ('before', 'usage', '', 1728007200, 0);
