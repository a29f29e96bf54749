output "compactor" {
  description = "All outputs of the module."
  value       = module.compactor
}
