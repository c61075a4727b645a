"""Built-in data: drawn from power laws, labelled by a planted teacher."""
