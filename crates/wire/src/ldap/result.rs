//! Results of LDAP operations.

/// Result code of a successful operation.
pub const SUCCESS: u32 = 0;
/// Result code of a search that ended at a limit of the number of entries. The entries that were
/// sent before are valid.
pub const SIZE_LIMIT_EXCEEDED: u32 = 4;

/// The result of an operation, as a server reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapResult {
    /// Result code (RFC 4511, appendix A).
    pub code: u32,
    /// Message of the server for a person; often empty.
    pub message: String,
    /// Number of URIs of a referral.
    pub referrals: usize,
}

impl LdapResult {
    /// The text of the result code; none if RFC 4511 does not define it.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.code {
            SUCCESS => "success",
            1 => "operations error",
            2 => "protocol error",
            3 => "time limit exceeded",
            SIZE_LIMIT_EXCEEDED => "size limit exceeded",
            7 => "auth method not supported",
            8 => "stronger auth required",
            10 => "referral",
            11 => "admin limit exceeded",
            12 => "unavailable critical extension",
            13 => "confidentiality required",
            14 => "sasl bind in progress",
            16 => "no such attribute",
            17 => "undefined attribute type",
            18 => "inappropriate matching",
            21 => "invalid attribute syntax",
            32 => "no such object",
            33 => "alias problem",
            34 => "invalid dn syntax",
            36 => "alias dereferencing problem",
            48 => "inappropriate authentication",
            49 => "invalid credentials",
            50 => "insufficient access rights",
            51 => "busy",
            52 => "unavailable",
            53 => "unwilling to perform",
            54 => "loop detect",
            80 => "other error",
            _ => return None,
        })
    }
}
