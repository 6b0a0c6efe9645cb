//! Names of `PostgreSQL`'s own types.

/// `oid` and `typname` of `pg_type`, in the order of `oid`: the types that results usually have.
/// They are the same in every server; a test compares them with a real one.
pub(super) const TYPES: [(u32, &str); 88] = [
    (16, "bool"),
    (17, "bytea"),
    (18, "char"),
    (19, "name"),
    (20, "int8"),
    (21, "int2"),
    (22, "int2vector"),
    (23, "int4"),
    (24, "regproc"),
    (25, "text"),
    (26, "oid"),
    (27, "tid"),
    (28, "xid"),
    (29, "cid"),
    (30, "oidvector"),
    (114, "json"),
    (142, "xml"),
    (199, "_json"),
    (600, "point"),
    (602, "path"),
    (603, "box"),
    (604, "polygon"),
    (650, "cidr"),
    (700, "float4"),
    (701, "float8"),
    (705, "unknown"),
    (718, "circle"),
    (774, "macaddr8"),
    (790, "money"),
    (829, "macaddr"),
    (869, "inet"),
    (1000, "_bool"),
    (1001, "_bytea"),
    (1002, "_char"),
    (1003, "_name"),
    (1005, "_int2"),
    (1007, "_int4"),
    (1009, "_text"),
    (1014, "_bpchar"),
    (1015, "_varchar"),
    (1016, "_int8"),
    (1021, "_float4"),
    (1022, "_float8"),
    (1028, "_oid"),
    (1033, "aclitem"),
    (1042, "bpchar"),
    (1043, "varchar"),
    (1082, "date"),
    (1083, "time"),
    (1114, "timestamp"),
    (1115, "_timestamp"),
    (1182, "_date"),
    (1183, "_time"),
    (1184, "timestamptz"),
    (1185, "_timestamptz"),
    (1186, "interval"),
    (1187, "_interval"),
    (1231, "_numeric"),
    (1266, "timetz"),
    (1560, "bit"),
    (1562, "varbit"),
    (1700, "numeric"),
    (1790, "refcursor"),
    (2202, "regprocedure"),
    (2203, "regoper"),
    (2204, "regoperator"),
    (2205, "regclass"),
    (2206, "regtype"),
    (2249, "record"),
    (2275, "cstring"),
    (2278, "void"),
    (2950, "uuid"),
    (2951, "_uuid"),
    (2970, "txid_snapshot"),
    (3220, "pg_lsn"),
    (3614, "tsvector"),
    (3615, "tsquery"),
    (3642, "gtsvector"),
    (3734, "regconfig"),
    (3769, "regdictionary"),
    (3802, "jsonb"),
    (3807, "_jsonb"),
    (4072, "jsonpath"),
    (4089, "regnamespace"),
    (4096, "regrole"),
    (4191, "regcollation"),
    (5038, "pg_snapshot"),
    (5069, "xid8"),
];

/// Name of a type; `oid<N>` for a type that is not in the list.
pub(super) fn type_name(oid: u32) -> String {
    match TYPES.binary_search_by_key(&oid, |(oid, _)| *oid) {
        Ok(index) => TYPES[index].1.to_owned(),
        Err(_) => format!("oid{oid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_number() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(type_name(16), "bool");
        assert_eq!(type_name(5069), "xid8");
        assert_eq!(type_name(1700), "numeric");
        assert_eq!(type_name(99_999), "oid99999");
    }
}
