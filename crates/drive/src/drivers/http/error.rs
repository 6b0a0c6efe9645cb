//! Why a request of `http` cannot be used.

/// Why a request cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The text cannot be a method.
    #[error("method: expected an HTTP method such as GET, got \"{0}\"")]
    Method(String),
    /// The name or the value of a header is invalid. Contains the name.
    #[error(
        "headers: \"{0}\": expected a name of letters, digits and hyphens, and a value without line ends"
    )]
    Header(String),
    /// The field of a metric is invalid. Contains its name.
    #[error("metrics: expected the name of a header field such as Server-Load, got \"{0}\"")]
    MetricField(String),
    /// There are too many metrics. Contains their number.
    #[error("metrics: expected at most 16, got {0}")]
    TooManyMetrics(usize),
    /// The request has two bodies.
    #[error("expected body or body_file, got both")]
    TwoBodies,
}
