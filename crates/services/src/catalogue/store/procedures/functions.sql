-- The functions of the catalogue, with its version in their names. A service of another version that uses the same
-- database has functions of its own: a function that changes gets a new version (`FUNCTIONS` in mod.rs).
--
-- The status of an entry is that of the protocol. -1: the functions cannot decide, because a directory has an ACL, or a name
-- is that of a symbolic link. The service then carries out the request.

-- Two services that start at the same time create the functions one after the other.
SELECT pg_advisory_xact_lock(7089243010);

-- Whether a directory permits this (4: read, 2: write, 1: search, or a sum of them) to a member of groups.
CREATE OR REPLACE FUNCTION plimsoll_catalogue_1_permits(
    filemode bigint, owner bigint, gid bigint, acl text, caller bigint, groups bigint[], wanted bigint
) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN acl IS NOT NULL OR filemode & 61440 = 40960 THEN -1
        WHEN filemode & 61440 <> 16384 THEN 20
        WHEN (filemode >> CASE WHEN owner = caller THEN 6 WHEN gid = ANY (groups) THEN 3 ELSE 0 END) & wanted = wanted
            THEN 0
        ELSE 13
    END
$$;

-- The number of a directory, whose path has no slash at its beginning, or the reason why it cannot be used. The directories
-- above it must permit to search them, and the directory itself what is wanted. `inherited`: the group of its new entries,
-- if it has the set-group bit.
CREATE OR REPLACE FUNCTION plimsoll_catalogue_1_directory(
    caller bigint, groups bigint[], path text, wanted bigint,
    OUT directory bigint, OUT status integer, OUT inherited bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    names text[] := string_to_array(path, '/');
    last integer := cardinality(names);
BEGIN
    SELECT m.fileid, CASE WHEN m.filemode & 1024 <> 0 THEN m.gid END, plimsoll_catalogue_1_permits(
            m.filemode, m.owner_uid, m.gid, m.acl, caller, groups, CASE last WHEN 0 THEN wanted ELSE 1 END)
        INTO directory, inherited, status FROM Cns_file_metadata m WHERE m.fileid = 1;
    FOR level IN 1 .. last LOOP
        EXIT WHEN status <> 0;
        SELECT m.fileid, CASE WHEN m.filemode & 1024 <> 0 THEN m.gid END, plimsoll_catalogue_1_permits(
                m.filemode, m.owner_uid, m.gid, m.acl, caller, groups, CASE level WHEN last THEN wanted ELSE 1 END)
            INTO directory, inherited, status FROM Cns_file_metadata m
            WHERE m.parent_fileid = directory AND m.name = names[level];
        IF NOT FOUND THEN
            status := 2;
        END IF;
    END LOOP;
    IF status <> 0 THEN
        directory := -1;
    END IF;
END
$$;

-- One row for each key. Kinds: 0 is the name `texts[n]` in the directory `directories[places[n]]`, 1 a GUID, 2 a replica.
CREATE OR REPLACE FUNCTION plimsoll_catalogue_1_nodes(
    caller bigint, groups bigint[], directories text[], kinds integer[], places integer[], texts text[]
) RETURNS TABLE (
    n bigint, status integer, file bigint, parent bigint, guid text, filemode bigint, filesize bigint, owner bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    parents bigint[] := '{}';
    refusals integer[] := '{}';
    path text;
    found_directory bigint;
    refusal integer;
BEGIN
    FOREACH path IN ARRAY directories LOOP
        SELECT d.directory, d.status INTO found_directory, refusal
            FROM plimsoll_catalogue_1_directory(caller, groups, path, 1) d;
        parents := parents || found_directory;
        refusals := refusals || refusal;
    END LOOP;
    IF 0 = ANY (kinds) THEN
        RETURN QUERY SELECT k.n,
                CASE
                    WHEN refusals[k.place] <> 0 THEN refusals[k.place]
                    WHEN m.fileid IS NULL THEN 2
                    WHEN m.filemode & 61440 = 40960 THEN -1
                    ELSE 0
                END,
                m.fileid, m.parent_fileid, m.guid::text, m.filemode, m.filesize, m.owner_uid
            FROM unnest(kinds, places, texts) WITH ORDINALITY AS k(kind, place, value, n)
            LEFT JOIN Cns_file_metadata m ON m.parent_fileid = parents[k.place] AND m.name = k.value
            WHERE k.kind = 0;
    END IF;
    IF 1 = ANY (kinds) THEN
        RETURN QUERY SELECT k.n,
                CASE
                    WHEN m.fileid IS NULL THEN 2
                    WHEN m.filemode & 61440 = 40960 THEN -1
                    ELSE 0
                END,
                m.fileid, m.parent_fileid, m.guid::text, m.filemode, m.filesize, m.owner_uid
            FROM unnest(kinds, texts) WITH ORDINALITY AS k(kind, value, n)
            LEFT JOIN Cns_file_metadata m ON m.guid = k.value
            WHERE k.kind = 1;
    END IF;
    IF 2 = ANY (kinds) THEN
        RETURN QUERY SELECT k.n,
                CASE
                    WHEN m.fileid IS NULL THEN 2
                    WHEN m.filemode & 61440 = 40960 THEN -1
                    ELSE 0
                END,
                m.fileid, m.parent_fileid, m.guid::text, m.filemode, m.filesize, m.owner_uid
            FROM unnest(kinds, texts) WITH ORDINALITY AS k(kind, value, n)
            LEFT JOIN Cns_file_replica r ON r.sfn = k.value
            LEFT JOIN Cns_file_metadata m ON m.fileid = r.fileid
            WHERE k.kind = 2;
    END IF;
END
$$;

-- The entries of keys that exist, with one row for each replica.
CREATE OR REPLACE FUNCTION plimsoll_catalogue_1_lookup(
    caller bigint, groups bigint[], directories text[], kinds integer[], places integer[], texts text[]
) RETURNS TABLE (
    n bigint, status integer, file bigint, guid text, filemode bigint, filesize bigint, owner bigint, sfn text
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT e.n, e.status, e.file, e.guid, e.filemode, e.filesize, e.owner, r.sfn::text
        FROM plimsoll_catalogue_1_nodes(caller, groups, directories, kinds, places, texts) e
        LEFT JOIN Cns_file_replica r ON r.fileid = e.file
        WHERE e.status <= 0;
END
$$;

-- Inserts entries with a replica each, and returns the status of each. NULL: nothing was changed, and the service must
-- carry out the request. The entries have the numbers from `first_file` on.
CREATE OR REPLACE FUNCTION plimsoll_catalogue_1_register(
    caller bigint, caller_group bigint, groups bigint[], moment bigint, first_file bigint, directories text[],
    places integer[], names text[], guids text[], modes bigint[], sizes bigint[], hosts text[], replicas text[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    parents bigint[] := '{}';
    refusals integer[] := '{}';
    path text;
    found_directory bigint;
    refusal integer;
    inherited bigint;
    new_groups bigint[] := '{}';
    entries bigint[];
    registered bigint[];
    results integer[];
    file bigint;
BEGIN
    FOREACH path IN ARRAY directories LOOP
        SELECT d.directory, d.status, d.inherited INTO found_directory, refusal, inherited
            FROM plimsoll_catalogue_1_directory(caller, groups, path, 3) d;
        IF refusal < 0 THEN
            RETURN NULL;
        END IF;
        parents := parents || found_directory;
        refusals := refusals || refusal;
        new_groups := new_groups || coalesce(inherited, caller_group);
    END LOOP;
    WITH entry AS (
        INSERT INTO Cns_file_metadata (fileid, parent_fileid, guid, name, filemode, owner_uid, filesize, atime, mtime,
                ctime, nlink, gid, fileclass, status)
            SELECT first_file + k.n - 1, parents[k.place], k.guid, k.name, k.mode, caller, k.size, moment, moment,
                moment, 1, new_groups[k.place], 0, '-'
            FROM unnest(places, names, guids, modes, sizes) WITH ORDINALITY AS k(place, name, guid, mode, size, n)
            WHERE refusals[k.place] = 0
            ON CONFLICT DO NOTHING RETURNING fileid
    ), replica AS (
        INSERT INTO Cns_file_replica (fileid, nbaccesses, ctime, atime, ptime, ltime, r_type, status, f_type, poolname,
                host, fs, sfn)
            SELECT e.fileid, 0, moment, moment, 0, 0, 'P', '-', 'P', '', hosts[e.fileid - first_file + 1], '',
                replicas[e.fileid - first_file + 1]
            FROM entry e
            ON CONFLICT DO NOTHING RETURNING fileid
    )
    SELECT coalesce((SELECT array_agg(e.fileid) FROM entry e), '{}'),
            coalesce((SELECT array_agg(r.fileid) FROM replica r), '{}')
        INTO entries, registered;
    -- The entries of replicas that exist are removed again.
    IF cardinality(registered) < cardinality(entries) THEN
        DELETE FROM Cns_file_metadata m WHERE m.fileid = ANY (entries) AND m.fileid <> ALL (registered);
    END IF;
    results := ARRAY(
        SELECT CASE refusals[k.place] WHEN 0 THEN 17 ELSE refusals[k.place] END
            FROM unnest(places) WITH ORDINALITY AS k(place, n) ORDER BY k.n);
    FOREACH file IN ARRAY registered LOOP
        results[file - first_file + 1] := 0;
    END LOOP;
    RETURN results;
END
$$;

-- Deletes entries with their replicas, and returns the status of each key. NULL: as above.
CREATE OR REPLACE FUNCTION plimsoll_catalogue_1_delete(
    caller bigint, groups bigint[], directories text[], kinds integer[], places integer[], texts text[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    results integer[];
    files bigint[];
    chosen bigint[];
    removed bigint[];
BEGIN
    -- The second of two keys of the same entry finds nothing to delete.
    SELECT array_agg(
                CASE WHEN v.verdict = 0 AND v.occurrence > 1 THEN 2 ELSE v.verdict END ORDER BY v.n),
            array_agg(v.file ORDER BY v.n)
        INTO results, files
        FROM (
            SELECT d.n, d.file, d.verdict, row_number() OVER (PARTITION BY d.verdict, d.file ORDER BY d.n) AS occurrence
                FROM (
                    SELECT e.n, e.file,
                            CASE
                                WHEN e.status <> 0 THEN e.status
                                WHEN e.filemode & 61440 = 16384 THEN 21
                                ELSE plimsoll_catalogue_1_permits(p.filemode, p.owner_uid, p.gid, p.acl, caller, groups, 3)
                            END AS verdict
                        FROM plimsoll_catalogue_1_nodes(caller, groups, directories, kinds, places, texts) e
                        LEFT JOIN Cns_file_metadata p ON p.fileid = e.parent
                ) d
        ) v;
    IF -1 = ANY (results) THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(files[i]) INTO chosen FROM generate_subscripts(results, 1) i WHERE results[i] = 0;
    IF chosen IS NULL THEN
        RETURN results;
    END IF;
    DELETE FROM Cns_file_replica r WHERE r.fileid = ANY (chosen);
    WITH gone AS (
        DELETE FROM Cns_file_metadata m WHERE m.fileid = ANY (chosen) RETURNING m.fileid
    )
    SELECT coalesce(array_agg(g.fileid), '{}') INTO removed FROM gone g;
    -- Another session has deleted the others meanwhile.
    IF cardinality(removed) < cardinality(chosen) THEN
        FOR i IN 1 .. cardinality(results) LOOP
            IF results[i] = 0 AND files[i] <> ALL (removed) THEN
                results[i] := 2;
            END IF;
        END LOOP;
    END IF;
    RETURN results;
END
$$;
