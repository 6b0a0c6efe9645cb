//! Samples of one time.

use std::sync::Arc;

use plimsoll_record::Sample;

/// The samples, their time in ns, the component of the following samples, and the empty part.
pub(crate) struct Rows(pub(crate) Vec<Sample>, i64, Arc<str>, Arc<str>);

impl Rows {
    pub(crate) fn new(t_ns: i64, component: Arc<str>) -> Self {
        Self(Vec::new(), t_ns, component, "".into())
    }

    /// Sets the component of the following rows.
    pub(crate) fn of(&mut self, component: &Arc<str>) -> &mut Self {
        self.2 = component.clone();
        self
    }

    pub(crate) fn push(&mut self, metric: &'static str, value: f64) {
        let part = self.3.clone();
        self.push_part(metric, &part, value);
    }

    pub(crate) fn push_part(&mut self, metric: &'static str, part: &Arc<str>, value: f64) {
        self.0.push(Sample {
            t_ns: self.1,
            component: self.2.clone(),
            metric,
            part: part.clone(),
            value,
        });
    }
}
