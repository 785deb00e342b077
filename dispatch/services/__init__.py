"""One file per verb; one public function is one transaction: read → core decides → guarded write → hint."""
